package localcluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// AwaitClasses waits until the API server's admission has read every current PriorityClass except the system's: it accepts a pod of the
// class and sets the class's value. Before that, it rejects such a pod or sets the old value.
func AwaitClasses(ctx context.Context, client kubernetes.Interface) error {
	classes, err := client.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, class := range classes.Items {
		if strings.HasPrefix(class.Name, "system-") {
			continue
		}
		last := errors.New("its pods get another value")
		err := wait.PollUntilContextTimeout(ctx, pollEvery, startTimeout, true, func(ctx context.Context) (bool, error) {
			dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
			pod, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, podOfClass(class.Name), dryRun)
			if apierrors.IsForbidden(err) {
				last = err
				return false, nil
			}
			return err == nil && pod.Spec.Priority != nil && *pod.Spec.Priority == class.Value, err
		})
		if err != nil {
			return fmt.Errorf("PriorityClass %q: %w", class.Name, errors.Join(err, last))
		}
	}
	return nil
}

func podOfClass(class string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "class-"},
		Spec:       v1.PodSpec{PriorityClassName: class, Containers: []v1.Container{{Name: "main", Image: "none"}}},
	}
}
