package status

import (
	"context"
	"encoding/json"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// writeScore writes status.placementScore of the object that owns gang ref, and no other field.
func (t *Reporter) writeScore(ctx context.Context, ref gang.Ref) error {
	s, ok := t.cache.Score(ref)
	if !ok || !t.cache.Open() {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": s.Object.UID}, // not a new object of its name
		"status":   map[string]any{"placementScore": s.Value},
	})
	if err != nil {
		return err
	}
	return t.Writer.Patch(ctx, s.Resource, s.Object.Namespace, s.Object.Name, patch, "status")
}
