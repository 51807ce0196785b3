package gang

import (
	"cmp"
	"strings"
)

// Ref names a gang by its API and object. Equal names of two APIs are two gangs.
type Ref struct {
	// Source is the name space of the name, as its integration gives it. All ways of one API to name a gang (label,
	// annotation) share one source.
	Source          string
	Namespace, Name string
	// UID is set if members refer to the object by owner reference. It is "" if members know only a name: a
	// recreated object of that name is the same gang.
	UID string
}

// String returns namespace/name, as users name the gang.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// ID returns a text that is unique per gang, for use as a key.
func (r Ref) ID() string { return r.Source + " " + r.String() + " " + r.UID }

// IsZero returns whether the Ref names no gang.
func (r Ref) IsZero() bool { return r == Ref{} }

// Compare returns a negative number if r is before o: by namespace and name, in the order of names, then by source and UID.
func (r Ref) Compare(o Ref, names func(a, b string) int) int {
	if r == o {
		return 0
	}
	if c := names(r.Namespace, o.Namespace); c != 0 {
		return c
	}
	return cmp.Or(names(r.Name, o.Name), strings.Compare(r.Source, o.Source), strings.Compare(r.UID, o.UID))
}

// partSeparator separates the source of a gang from the name of a part. Sources contain no slash.
const partSeparator = "/"

// Part returns the Ref of a part of the gang: members with a topology constraint and minimum of their own. Only the Groups of planners have
// parts; the book has whole gangs.
func (r Ref) Part(name string) Ref {
	r.Source += partSeparator + name
	return r
}

// PartName returns the name of the part; "" for a whole gang.
func (r Ref) PartName() string {
	_, name, _ := strings.Cut(r.Source, partSeparator)
	return name
}

// Whole returns the gang that contains the part. A whole gang returns itself.
func (r Ref) Whole() Ref {
	r.Source, _, _ = strings.Cut(r.Source, partSeparator)
	return r
}
