package checks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Record says that a part was whole and green: a line of the file of records.
type Record struct {
	Check, Part string
	Fingerprint string // of the files
	Commit      string // on which it ran, for readers
	At, Took    string
	Seed        string // "-" if the part draws nothing
}

func (r Record) fields() []string {
	return []string{r.Check, r.Part, r.Fingerprint, r.Commit, r.At, r.Took, r.Seed}
}

// Read reads a file of records. There are none if the file does not exist.
func Read(file string) (all []Record, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		f := strings.Fields(line)
		if len(f) != len(Record{}.fields()) {
			return nil, fmt.Errorf("%s:%d: got %q; supported values: CHECK PART FINGERPRINT COMMIT TIME DURATION SEED",
				file, number, strings.TrimSpace(line))
		}
		all = append(all, Record{f[0], f[1], f[2], f[3], f[4], f[5], f[6]})
	}
	return all, nil
}

// add appends a record to a file.
func add(file string, r Record) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, strings.Join(r.fields(), " "))
	return errors.Join(err, f.Close())
}

// Last returns the last record of a part for these files. With an empty fingerprint it is the last for any files.
func (p Part) Last(records []Record, fingerprint string) (last Record, found bool) {
	for _, r := range records {
		if r.Check == p.Check && r.Part == p.Name && (fingerprint == "" || r.Fingerprint == fingerprint) {
			last, found = r, true
		}
	}
	return last, found
}
