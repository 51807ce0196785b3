package reload

// Begin reads what the scheduler runs by.
func (f *File) Begin() error { return f.begin() }
