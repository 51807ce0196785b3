package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// Adapter calls the backends for one object at a time: it writes the object's gangs with the backend of their scheduler name, and
// deletes former gangs of the object from all backends.
type Adapter struct {
	Registry *Registry
	// Tell reports a note to the user on the object that declares a gang; nil drops notes.
	Tell func(info *podgang.PodGangInfo, note podgang.Note)
}

// Sync writes the gangs infos of an owner, and then deletes the owner's other gangs, unless a write fails. It returns the written gangs.
func (a *Adapter) Sync(
	ctx context.Context, namespace string, owner podgang.Owner, infos []*podgang.PodGangInfo,
) (written []*podgang.PodGangInfo, err error) {
	var errs []error
	wanted := map[string][]string{} // gangs, by backend
	twice := equalNames(infos)
	for _, info := range infos {
		if twice[gangLabel(info.Name)] {
			errs = append(errs, &podgang.Error{
				Reason: reasons.InvalidGang,
				Message: fmt.Sprintf("%s %s/%s: two gangs have the name %q; rename one. Nothing is written for them",
					owner.Kind, namespace, owner.Name, info.Name),
			})
			continue
		}
		for _, note := range info.Notes {
			if a.Tell != nil {
				a.Tell(info, note)
			}
		}
		b, err := a.Registry.For(info.SchedulerName)
		if err != nil {
			errs = append(errs, &podgang.Error{
				Reason:  reasons.NoBackend,
				Message: fmt.Sprintf("%s: %v; nothing is written for gang %s", info.Kind.SchedulerField(), err, info.Name),
			})
			continue
		}
		wanted[b.Name()] = append(wanted[b.Name()], gangLabel(info.Name))
		if err := b.Sync(ctx, info); err != nil {
			errs = append(errs, err)
			continue
		}
		written = append(written, info)
	}
	if err := errors.Join(errs...); err != nil {
		return written, err
	}
	return written, a.prune(ctx, namespace, owner, wanted)
}

// equalNames returns, by gang name, whether several gangs have it. Such gangs would overwrite each other forever.
func equalNames(infos []*podgang.PodGangInfo) map[string]bool {
	out := map[string]bool{}
	for _, info := range infos {
		_, seen := out[gangLabel(info.Name)]
		out[gangLabel(info.Name)] = seen
	}
	return out
}

// Delete deletes all that was written for an owner.
func (a *Adapter) Delete(ctx context.Context, namespace string, owner podgang.Owner) error {
	return a.prune(ctx, namespace, owner, nil)
}

// prune deletes from each backend the gangs of an owner that are not in wanted, which lists gangs by backend.
func (a *Adapter) prune(ctx context.Context, namespace string, owner podgang.Owner, wanted map[string][]string) error {
	var errs []error
	for _, b := range a.Registry.All() {
		gangs, err := b.GetExistingGangNames(ctx, namespace, owner)
		errs = append(errs, err)
		for _, gang := range gangs {
			if !slices.Contains(wanted[b.Name()], gang) {
				errs = append(errs, b.Delete(ctx, &podgang.PodGangInfo{Namespace: namespace, Name: gang, Owner: owner}))
			}
		}
	}
	return errors.Join(errs...)
}
