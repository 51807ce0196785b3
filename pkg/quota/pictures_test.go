package quota_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// TestPictures runs files of pictures. A quota is a line with its name, deeper than its parent's, and its
// declaration. Amounts are of each resource, or of cpu alone. The commands:
//
//	quotas [total=…] [fixed-min] [max-only]  reads a tree, one line a quota.
//	gangs                    reads one line a gang: its quota (or several), n×amount, and its state: waits, keeps or holds.
//	gone gang…               deletes gangs.
//	passed gang…, fresh      marks gangs that cannot start now for other reasons, or clears the marks.
//	together gang…           makes gangs start together: a request of one is a request of all.
//	needs gang least=n       sets the minimum of the first kind of members.
//	claim gang…, unclaim     holds the requested quota for gangs; claim-free: also quota that is free in the tree.
//	admit gang… [more=n]     reports whether waiting gangs are admitted; the last n members are optional.
//	beyond gang…             names the limit that a gang's request can never meet.
//	may gang… [policy=…] [more=n]  lists the eligible victims for a gang, without its last n members.
//	enough gang victim…      reports whether evicting these victims is allowed, and enough;
//	                         leaving=gang: victims that terminate already and count as gone, as for may.
//	over                     lists the quotas that use more than their fair share.
//	above POD ...            lists reservations that end, since their quota shrank or cannot be used. The pods terminate already.
//	draw                     draws the tree.
func TestPictures(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Ext(path) != ".txt" {
			return
		}
		s := &scene{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.do(d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return out
		})
	})
}

type scene struct {
	book  *quota.Book
	gangs map[string]*crew
	with  map[string][]string // gangs that start together, by each of them
}

func (s *scene) together(names []string) {
	if s.with == nil {
		s.with = map[string][]string{}
	}
	for _, name := range names {
		s.with[name] = names
	}
	s.book.SetStartTogether(names...)
}

// crew is a gang of a picture.
type crew struct {
	name     string
	priority int32
	since    int64
	members  []quota.Pod
}

func (s *scene) do(d *datadriven.TestData) (string, error) {
	words, options := arguments(d)
	switch d.Cmd {
	case "quotas":
		return s.plant(d.Input, options)
	case "gangs":
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			if err := s.gang(line); err != nil {
				return "", err
			}
		}
		return s.draw(), nil
	case "gone":
		for _, name := range words {
			s.gone(name)
		}
		return s.draw(), nil
	case "passed", "fresh":
		for _, name := range words {
			s.book.SetPassedOver(name, d.Cmd == "passed")
		}
		return "", nil
	case "together":
		s.together(words)
		return "", nil
	case "needs":
		a := s.ask(words[0], 0)
		n, err := strconv.Atoi(options["least"])
		if err != nil {
			return "", err
		}
		a.Need[0].Count = n
		s.book.SetNeeds(words[0], a.Need[:1])
		return s.draw(), nil
	case "claim", "claim-free":
		for _, name := range words {
			s.book.Hold(s.ask(name, 0), d.Cmd == "claim-free")
		}
		return "", nil
	case "unclaim":
		s.book.ReleaseHold(words[0])
		return "", nil
	case "admit":
		return s.admit(words, options["more"]), nil
	case "beyond":
		return s.beyond(words), nil
	case "may":
		more, _ := strconv.Atoi(options["more"])
		return s.may(s.after(options["leaving"]), words, more, quota.Policy(options["policy"])), nil
	case "enough":
		return s.enough(s.after(options["leaving"]), words[0], words[1:]), nil
	case "over":
		return s.over(), nil
	case "above":
		return fmt.Sprintln(strings.Join(s.book.GangsAboveLimits(words...), " ")), nil
	case "draw":
		return s.draw(), nil
	}
	return "", fmt.Errorf("unknown command %s", d.Cmd)
}

func arguments(d *datadriven.TestData) (words []string, options map[string]string) {
	options = map[string]string{}
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			words = append(words, a.Key)
		}
		options[a.Key] = strings.Join(a.Vals, ",")
	}
	return words, options
}

// plant reads a tree.
func (s *scene) plant(text string, options map[string]string) (string, error) {
	var specs []quota.Spec
	var above []string
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		spec, err := spec(strings.Fields(line))
		if err != nil {
			return "", err
		}
		if above = above[:min(depth, len(above))]; depth > 0 && spec.Parent == "" {
			spec.Parent = above[depth-1]
			for i := range specs {
				specs[i].Inner = specs[i].Inner || specs[i].Name == spec.Parent && !spec.Detached
			}
		}
		above = append(above, spec.Name)
		specs = append(specs, spec)
	}
	tree, problems := quota.NewTree(specs)
	s.book, s.gangs = quota.NewBook(tree), map[string]*crew{}
	if _, ok := options["fixed-min"]; ok {
		s.book.ScaleMin = false
	}
	if _, ok := options["max-only"]; ok {
		s.book.Runtime = false
	}
	if total, err := list(options["total"]); err != nil {
		return "", err
	} else if total != nil {
		for _, name := range tree.Names() {
			s.book.Total(name, total)
		}
	}
	var out strings.Builder
	for _, p := range problems {
		stops := "warns"
		if p.Stops {
			stops = "stops"
		}
		fmt.Fprintf(&out, "%s: %s (%s)\n", specs[p.Spec].Name, p.Message, stops)
	}
	return out.String() + s.draw(), nil
}

func spec(words []string) (s quota.Spec, err error) {
	s.Name = words[0]
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "min":
			s.Min, err = list(v)
		case "max":
			s.Max, err = list(v)
		case "weight":
			s.Weight, err = list(v)
		case "keeps":
			s.NotLent = true
		case "apart":
			s.Detached = true
		case "spared":
			s.NeverEvicted = true
		case "inner":
			s.Inner = true
		case "parent":
			s.Parent = v
		case "created":
			s.Created, err = strconv.ParseInt(v, 10, 64)
		case "wrong":
			s.Invalid = v
		default:
			err = fmt.Errorf("what is %q?", w)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// list reads amounts: "cpu:8,gpu:2", or "8" of cpu.
func list(text string) (quota.List, error) {
	if text == "" {
		return nil, nil
	}
	l := quota.List{}
	for _, w := range strings.Split(text, ",") {
		name, number, ok := strings.Cut(w, ":")
		if !ok {
			name, number = "cpu", w
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, err
		}
		l[name] = n
	}
	return l, nil
}

// gang reads "A1 a 7×8 waits priority=3 since=4 fixed"; several quotas are further pairs.
func (s *scene) gang(line string) error {
	words := strings.Fields(line)
	s.gone(words[0])
	c := &crew{name: words[0], since: int64(len(s.gangs) + 1)}
	s.gangs[c.name] = c
	state, fixed := quota.Waiting, false
	for at := 1; at < len(words); at++ {
		k, v, _ := strings.Cut(words[at], "=")
		n, err := 0, error(nil)
		switch k {
		case "waits":
		case "keeps":
			state = quota.Reserved
		case "holds":
			state = quota.Bound
		case "fixed":
			fixed = true
		case "priority":
			n, err = strconv.Atoi(v)
			c.priority = int32(n)
		case "since":
			n, err = strconv.Atoi(v)
			c.since = int64(n)
		default:
			err = c.add(k, words[at+1])
			at++
		}
		if err != nil {
			return err
		}
	}
	for i := range c.members {
		m := &c.members[i]
		m.State, m.Fixed, m.Priority, m.Since = state, fixed, c.priority, c.since
		s.book.Set(*m)
	}
	return nil
}

func (c *crew) add(quotaName, what string) error {
	count, amount, ok := strings.Cut(what, "×")
	if !ok {
		return fmt.Errorf("what is %q?", what)
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	asks, err := list(amount)
	if err != nil {
		return err
	}
	for range n {
		c.members = append(c.members, quota.Pod{Name: fmt.Sprintf("%s-%d", c.name, len(c.members)), Gang: c.name, Quota: quotaName, Asks: asks})
	}
	return nil
}

func (s *scene) gone(name string) {
	if c := s.gangs[name]; c != nil {
		for _, m := range c.members {
			s.book.Remove(m.Name)
		}
		delete(s.gangs, name)
	}
}

// ask is a gang's request; it can start without the last members.
func (s *scene) ask(name string, more int) quota.Request {
	c := s.gangs[name]
	a := quota.Request{Gang: c.name, Priority: c.priority}
	members := c.members
	for _, other := range s.with[name] {
		if other != name {
			members = slices.Concat(members, s.gangs[other].members)
		}
	}
	for i, m := range members {
		w := quota.Want{Quota: m.Quota, Asks: m.Asks, Fixed: m.Fixed, Count: 1}
		if i < len(members)-more {
			a.Need = together(a.Need, w)
		} else {
			a.Optional = together(a.Optional, w)
		}
	}
	return a
}

// together has members with equal requests, one after the other, ask together.
func together(all []quota.Want, w quota.Want) []quota.Want {
	if last := len(all) - 1; last >= 0 && all[last].Quota == w.Quota && text(all[last].Asks) == text(w.Asks) {
		all[last].Count++
		return all
	}
	return append(all, w)
}

func (s *scene) admit(names []string, optional string) string {
	var out strings.Builder
	n, _ := strconv.Atoi(optional)
	for _, name := range names {
		more, refusal := s.book.Admit(s.ask(name, n))
		if refusal != nil {
			fmt.Fprintf(&out, "%s: %s\n", name, words(refusal))
			continue
		}
		some := len(s.gangs[name].members) - n
		for _, m := range more {
			some += m
		}
		fmt.Fprintf(&out, "%s: %d of %d\n", name, some, len(s.gangs[name].members))
	}
	return out.String()
}

func (s *scene) beyond(names []string) string {
	var out strings.Builder
	for _, name := range names {
		is := "none"
		if refusal := s.book.ExceededByAlone(s.ask(name, 0)); refusal != nil {
			is = words(refusal)
		}
		fmt.Fprintf(&out, "%s: %s\n", name, is)
	}
	return out.String()
}

func words(r *quota.Refusal) string {
	if r.Cause == quota.Broken {
		return fmt.Sprintf("%s: %s", r.Quota, r.Message)
	}
	out := fmt.Sprintf("%s of %s: %s, used %s, reserved %s, asks for %s (%d pods), exceeds %s",
		r.Cause, strings.Join(r.Path, "/"), text(r.Limit), text(r.Used), text(r.Reserved), text(r.Request), r.Pods, strings.Join(r.Exceeds, ","))
	if r.Quota != r.Path[len(r.Path)-1] {
		out += ", at " + r.Quota
	}
	if len(r.Borrowed) > 0 {
		out += ", borrowed by " + strings.Join(r.Borrowed, ",")
	}
	if r.Holder != "" {
		out += ", first " + r.Holder
	}
	return out
}

// after is the book without a terminating gang.
func (s *scene) after(gang string) *quota.Book {
	if gang == "" {
		return s.book
	}
	var names []string
	for _, m := range s.gangs[gang].members {
		names = append(names, m.Name)
	}
	return s.book.Without(names...)
}

func (s *scene) may(b *quota.Book, names []string, more int, policy quota.Policy) string {
	var out strings.Builder
	for _, name := range names {
		r := b.Reclaim(s.ask(name, more), policy)
		var may []string
		for _, other := range s.sorted() {
			if right := r.Right(other.name); right != quota.None {
				may = append(may,
					other.name+" "+map[quota.Right]string{quota.SameQuota: "own", quota.ByMin: "by min", quota.ByFairShare: "by shares"}[right])
			}
		}
		fmt.Fprintf(&out, "%s: %s", name, strings.Join(may, ", "))
		shorts, ok := r.Shortages()
		for _, short := range shorts {
			fmt.Fprintf(&out, "; %s is short of %s", short.Quota, text(short.Amount))
		}
		if !ok {
			out.WriteString("; evicting pods does not help")
		}
		out.WriteString("\n")
	}
	return out.String()
}

func (s *scene) enough(b *quota.Book, name string, victims []string) string {
	by := map[string][]string{}
	for _, v := range victims {
		for _, m := range s.gangs[v].members {
			by[v] = append(by[v], m.Name)
		}
	}
	return fmt.Sprintln(b.Reclaim(s.ask(name, 0), quota.AnyPriority).Enough(by))
}

func (s *scene) over() string {
	var all []string
	for _, name := range s.book.Tree().Names() {
		if s.book.ExceedsFairShare(name) {
			all = append(all, name)
		}
	}
	if all == nil {
		all = append(all, "none")
	}
	return strings.Join(all, " ") + "\n"
}

func (s *scene) sorted() (all []*crew) {
	for _, c := range s.gangs {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *crew) int { return strings.Compare(a.name, b.name) })
	return all
}

// text is amounts; of cpu alone the number.
func text(l quota.List) string {
	var all []string
	for r := range l {
		all = append(all, r)
	}
	slices.Sort(all)
	for i, r := range all {
		all[i] = fmt.Sprintf("%s:%d", r, l[r])
		if r == "cpu" && len(l) == 1 {
			all[i] = fmt.Sprint(l[r])
		}
	}
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, ",")
}

// draw shows the tree.
func (s *scene) draw() string {
	rows := [][]string{{"quota", "min", "max", "used", "reserved", "asks", "entitled", "share", "gangs"}}
	for _, name := range s.book.Tree().Names() {
		b, _ := s.book.Balance(name)
		gangs := ""
		for _, g := range b.Guaranteed {
			gangs += " " + g
		}
		for _, g := range b.Borrowing {
			gangs += " " + g + "?"
		}
		for _, g := range b.WaitingHere {
			gangs += " (" + g + ")"
		}
		if b.Broken != "" {
			gangs += " broken"
		}
		rows = append(rows, []string{
			strings.Repeat("  ", len(b.Path)-1) + name, text(b.Min), text(b.Max), text(b.Used), text(b.Reserved), text(b.Request), text(b.FairShare),
			fmt.Sprintf("%.3f", float64(b.Share)/1e6), strings.TrimSpace(gangs),
		})
	}
	return columns(rows)
}

func columns(rows [][]string) string {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	var out strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += cell + strings.Repeat(" ", width[i]-len([]rune(cell))+2)
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return out.String()
}
