package simulate

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/workload"
)

// podOptions allow what Kubernetes allows with any feature gate.
var podOptions = validation.PodValidationOptions{
	ResourceIsPod: true, AllowInvalidPodDeletionCost: true, PodLevelResourcesEnabled: true, AllowSidecarResizePolicy: true,
	InPlacePodLevelResourcesVerticalScalingEnabled: true, InPlacePodVerticalScalingMemoryBackedVolumesEnabled: true,
	AllowMatchLabelKeysInPodTopologySpread: true, AllowMatchLabelKeysInPodTopologySpreadSelectorMerge: true,
	AllowRelaxedEnvironmentVariableValidation: true, AllowEnvFilesValidation: true, AllowContainerRestartPolicyRules: true,
	AllowRestartAllContainers: true, AllowTaintTolerationComparisonOperators: true, AllowUserNamespacesHostNetworkSupport: true,
	AllowImageVolumeWithDigest: true, AllowSysAdminWhenPrivilegeEscalationFalse: true,
}

// checkPod returns the error of an API server for a pod; nil for a pod with a UID, which an API server has accepted. Pods of a simulation
// need few fields, so a missing field is an error only if it is the name of a list's element.
func checkPod(pod *v1.Pod) error {
	if pod.UID != "" {
		return nil
	}
	written, internal := pod.DeepCopy(), &core.Pod{}
	written.Spec.NodeName = ""                                                           // a node of any name counts if it exists
	written.Spec.SchedulingGroup = nil                                                   // may come from spec.workloadRef
	written.Spec.ServiceAccountName = cmp.Or(written.Spec.ServiceAccountName, "default") // as admission does
	legacyscheme.Scheme.Default(written)
	if err := legacyscheme.Scheme.Convert(written, internal, nil); err != nil {
		return err
	}
	errs := slices.DeleteFunc(validation.ValidatePodCreate(internal, podOptions), func(e *field.Error) bool {
		return e.Type == field.ErrorTypeRequired && !strings.HasSuffix(e.Field, "].name")
	})
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(podKind.GroupKind(), convert.PodKey(pod), sortErrors(errs))
}

// sortErrors sorts errors by their text: some come from maps.
func sortErrors(errs field.ErrorList) field.ErrorList {
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errs
}

// checkPods returns the error of checkPod for the first pod of each controller. Pods of one controller have the same template.
func checkPods(all []workload.Object) error {
	checked := map[string]bool{}
	for _, o := range all {
		pod, ok := o.Object.(*v1.Pod)
		if !ok {
			continue
		}
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			if checked[owner.Kind+owner.Name] {
				continue
			}
			checked[owner.Kind+owner.Name] = true
		}
		if err := checkPod(pod); err != nil {
			return err
		}
	}
	return nil
}
