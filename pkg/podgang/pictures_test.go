package podgang_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/podgang"
)

// TestPictures runs the files in testdata. The commands:
//
//	topology       reads layers from the top down, with their label keys; node-tier= is the tier of a node.
//	gangs          returns the gangs of YAML objects; pods among the objects exist already.
//	               revision= is the revision of a LeaderWorkerSet's leaders.
//	rules          converts a constraint in layers, label keys and tiers.
//	names          returns the object name of a gang and a group.
//	admit          returns the answer of admission to an object, or to an update: first the old object, then the new.
//
// Run with -rewrite to write new answers; then read the diff.
func TestPictures(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := &scene{}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				s.out.Reset()
				s.do(t, d)
				return s.out.String()
			})
		})
	}
}

type scene struct {
	topology podgang.Topology
	out      strings.Builder
}

func (s *scene) say(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *scene) do(t *testing.T, d *datadriven.TestData) {
	switch d.Cmd {
	case "topology":
		nodeTier := 0
		d.MaybeScanArgs(t, "node-tier", &nodeTier)
		s.topology = podgang.Topology{NodeTier: int32(nodeTier)}
		for line := range strings.Lines(d.Input) {
			words := strings.Fields(line)
			s.topology.Layers = append(s.topology.Layers, podgang.Layer{Name: words[0], Keys: words[1:]})
		}
		s.say("ok")
	case "gangs":
		revision := ""
		d.MaybeScanArgs(t, "revision", &revision)
		infos, err := build(t, d.Input, revision)
		s.failed(err)
		for _, info := range infos {
			s.draw(info)
		}
	case "rules":
		s.rules(t, d.Input)
	case "names":
		for line := range strings.Lines(d.Input) {
			words := strings.Fields(line)
			s.say("%s", podgang.GroupName(words[0], words[1]))
		}
	case "admit":
		all := objects(t, d.Input)
		s.admit(all[len(all)-1], append(slices.Clone(all[:len(all)-1]), nil)[0])
	default:
		t.Fatalf("what is %s?", d.Cmd)
	}
}

func (s *scene) failed(err error) {
	if err != nil {
		s.say("error: %v", err)
	}
}

func objects(t *testing.T, text string) (out []*unstructured.Unstructured) {
	for _, doc := range strings.Split(text, "\n---\n") {
		asJSON, err := yaml.YAMLToJSON([]byte(doc))
		require.NoError(t, err)
		u := &unstructured.Unstructured{Object: map[string]any{}}
		require.NoError(t, utiljson.Unmarshal(asJSON, &u.Object))
		if u.GetNamespace() == "" {
			u.SetNamespace("default")
		}
		out = append(out, u)
	}
	return out
}

// build builds the gangs of the objects that have some.
func build(t *testing.T, text, revision string) (out []*podgang.PodGangInfo, err error) {
	var pods []metav1.Object
	var bindings, owners []*unstructured.Unstructured
	for _, u := range objects(t, text) {
		switch u.GetKind() {
		case "Pod":
			pods = append(pods, u)
		case "ClusterTopologyBinding":
			bindings = append(bindings, u)
		default:
			owners = append(owners, u)
		}
	}
	domains, err := podgang.DomainsFrom(bindings)
	require.NoError(t, err)
	for _, u := range owners {
		var some []*podgang.PodGangInfo
		switch u.GetKind() {
		case "PodCliqueSet":
			some, err = podgang.FromPodCliqueSet(u, domains, pods)
		case "LeaderWorkerSet":
			some, err = podgang.FromLeaderWorkerSet(u, revision, pods)
		case "JobSet":
			some, err = podgang.FromJobSet(u, pods)
		case "PodGroup":
			some = make([]*podgang.PodGangInfo, 1)
			some[0], err = podgang.FromVolcanoPodGroup(u, pods)
		case "PodGang":
			some = make([]*podgang.PodGangInfo, 1)
			some[0], err = podgang.FromPodGang(u)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// draw draws a gang: what is said of all, then a line a group.
func (s *scene) draw(i *podgang.PodGangInfo) {
	line := []string{i.Name}
	for _, word := range [][2]string{
		{"scheduler", i.SchedulerName}, {"base", i.Base}, {"priority", i.PriorityClassName}, {"queue", i.Queue},
	} {
		if word[1] != "" {
			line = append(line, word[0]+"="+word[1])
		}
	}
	if i.ReuseReservationRef != nil {
		line = append(line, "reuses="+i.ReuseReservationRef.String())
	}
	s.say("%s%s", strings.Join(line, " "), constraint(i.TopologyConstraint))
	for _, g := range i.PodGroups {
		line := []string{fmt.Sprintf("  %s: %d", g.Name, g.MinReplicas)}
		if g.Total > 0 {
			line = append(line, fmt.Sprintf("of %d", g.Total))
		}
		if len(g.PodReferences) > 0 {
			line = append(line, fmt.Sprintf("exist %d", len(g.PodReferences)))
		}
		if g.Incarnation != "" {
			line = append(line, "incarnation "+g.Incarnation)
		}
		for _, name := range slices.Sorted(maps.Keys(g.MinResources)) {
			q := g.MinResources[name]
			line = append(line, fmt.Sprintf("%s=%s", name, q.String()))
		}
		s.say("%s%s", strings.Join(line, " "), constraint(g.TopologyConstraint))
		for _, p := range g.SubGroups {
			s.say("    %s: %d of %d by %v%s", p.Name, p.Least, p.Size, p.MatchLabelKeys, constraint(p.TopologyConstraint))
		}
	}
	for _, c := range i.TopologyConstraintGroupConfigs {
		s.say("  together %v%s", c.PodGroupNames, constraint(c.TopologyConstraint))
	}
	s.notes(i.Notes)
}

func (s *scene) notes(notes []podgang.Note) {
	for _, n := range notes {
		kind := "warning"
		if n.Info {
			kind = "note"
		}
		s.say("%s %s: %s", kind, n.Reason, n.Message)
	}
}

func constraint(c *podgang.TopologyConstraint) string {
	switch {
	case c == nil:
		return ""
	case c.Pack != nil:
		return fmt.Sprintf(", %s: required %q, preferred %q", c.Where, c.Pack.Required, c.Pack.Preferred)
	case c.Tiers != nil:
		tier := c.Tiers.HighestTierName
		if c.Tiers.HighestTier != nil {
			tier = fmt.Sprint(*c.Tiers.HighestTier)
		}
		return fmt.Sprintf(", %s: mode %q, tier %q", c.Where, c.Tiers.Mode, tier)
	}
	return fmt.Sprintf(", %s: %s", c.Where, c.Spec)
}

// rules says a constraint in the words of each scheduler.
func (s *scene) rules(t *testing.T, text string) {
	var in struct {
		Spec  string
		Pack  *podgang.Pack
		Tiers *podgang.Tiers
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &in))
	c := &podgang.TopologyConstraint{Where: "here", Spec: in.Spec, Pack: in.Pack, Tiers: in.Tiers}
	spec, notes, err := s.topology.Rules(c)
	if s.failed(err); err == nil {
		s.say("layers   %s", or(podgang.SpecJSON(spec)))
		s.notes(notes)
	}
	key, notes, err := s.topology.Key(c)
	if s.failed(err); err == nil {
		s.say("key      %s", or(key))
		s.notes(notes)
	}
	required, preferred, notes, err := s.topology.PackOf(c)
	if s.failed(err); err == nil {
		s.say("pack     required %s, preferred %s", or(required), or(preferred))
		s.notes(notes)
	}
	tiers, notes, err := s.topology.TiersOf(c)
	if s.failed(err); err == nil {
		said := ""
		if tiers != nil {
			said = constraint(&podgang.TopologyConstraint{Tiers: tiers})[len(", : "):]
		}
		s.say("tiers    %s", or(said))
		s.notes(notes)
	}
}

func or(said string) string {
	if said == "" {
		return "-"
	}
	return said
}

func (s *scene) admit(u, old *unstructured.Unstructured) {
	var v podgang.Verdict
	switch {
	case u.GetKind() == "LeaderWorkerSet":
		v = podgang.ValidateLeaderWorkerSet(u, old)
	case u.GetKind() == "PodCliqueSet":
		v = podgang.ValidatePodCliqueSet(u, old, podgang.CliqueSetRules{Backend: "koord-scheduler", NoMNNVL: true, NoScalingGroups: true})
	case strings.HasPrefix(u.GetAPIVersion(), "scheduling.sigs.k8s.io/"):
		v = podgang.ValidatePodGroup(u, old, s.topology)
	default:
		v = podgang.ValidateVolcano(u, old)
	}
	for _, w := range v.Warnings {
		s.say("warning: %s", w)
	}
	for _, e := range v.Errors {
		s.say("refused: %s", e.Error())
	}
	if len(v.Errors) == 0 {
		s.say("admitted")
	}
}
