package gang

import (
	"cmp"
	"strings"
)

// Ref names a gang: which API it comes from, and which object there. Equal names of two
// APIs are two gangs.
type Ref struct {
	// Source is the name space that the name is of, as its reader gives it. Ways in which
	// the users of one API name the same gang (a label, an annotation) have one source.
	Source          string
	Namespace, Name string
	// UID is that of the object where members themselves say which object they mean (by an
	// owner reference); "" where they know a name only: whatever is made anew under that
	// name is the same gang to them.
	UID string
}

// String is how people name the gang: namespace/name.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// ID is a text that is different for every gang: for keys that are texts, and for no
// reader's eyes.
func (r Ref) ID() string { return r.Source + " " + r.String() + " " + r.UID }

// IsZero says that this names no gang.
func (r Ref) IsZero() bool { return r == Ref{} }

// Compare orders gangs by namespace and name, as names orders them, then by source and UID.
func (r Ref) Compare(o Ref, names func(a, b string) int) int {
	if r == o {
		return 0
	}
	if c := names(r.Namespace, o.Namespace); c != 0 {
		return c
	}
	return cmp.Or(names(r.Name, o.Name), strings.Compare(r.Source, o.Source), strings.Compare(r.UID, o.UID))
}

// part separates the source of a gang from the name of one of its parts: sources have no slash.
const part = "/"

// Part names a part of the gang: members that gather by themselves, and of which enough must be
// placed. Only groups as planners see them have parts (Group); the book knows whole gangs.
func (r Ref) Part(name string) Ref {
	r.Source += part + name
	return r
}

// PartName is the name of the part; "" of a whole gang.
func (r Ref) PartName() string {
	_, name, _ := strings.Cut(r.Source, part)
	return name
}

// Whole is the gang that a part is of. A gang that is no part is itself whole.
func (r Ref) Whole() Ref {
	r.Source, _, _ = strings.Cut(r.Source, part)
	return r
}
