package fit

// Remembered says whether a memory keeps what is counted, and Apart whether it must ask
// some nodes all the same.
func (c *Counter) Remembered() bool { return c.reads.key != "" }

func (c *Counter) Apart() bool { return c.reads.checksAntiAffinity }
