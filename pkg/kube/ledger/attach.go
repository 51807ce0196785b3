package ledger

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
)

// A volume is attached to a node once, for all pods there that use it. An attachment's id is the driver and the volume handle. As long as
// the volume does not exist, it is the driver and the claim.

func attachment(driver, handle string) string { return driver + "\n" + handle }

func driverOf(attachment string) string {
	driver, _, _ := strings.Cut(attachment, "\n")
	return driver
}

// attachmentOf returns the id of the attachment for a claim; "" if its volume is not of a CSI driver.
func (l *volumes) attachmentOf(pvc *v1.PersistentVolumeClaim) string {
	if pv, err := l.pvs.Get(pvc.Spec.VolumeName); err == nil && pvc.Spec.VolumeName != "" {
		return l.attachmentOfVolume(pv)
	}
	class, err := l.classes.Get(volume.GetPersistentVolumeClaimClass(pvc))
	if err != nil {
		return ""
	}
	driver := class.Provisioner
	if l.translator.IsMigratableIntreePluginByName(driver) {
		if driver, err = l.translator.GetCSINameFromInTreeName(driver); err != nil {
			return ""
		}
	}
	return attachment(driver, "claim "+claimKey(pvc))
}

func (l *volumes) attachmentOfVolume(pv *v1.PersistentVolume) string {
	if pv.Spec.CSI == nil && l.translator.IsPVMigratable(pv) {
		if translated, err := l.translator.TranslateInTreePVToCSI(klog.Background(), pv); err == nil {
			pv = translated
		}
	}
	if pv.Spec.CSI == nil {
		return ""
	}
	return attachment(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)
}

// attachedTo returns the ids of the attachments of a node according to its VolumeAttachment objects.
func (l *volumes) attachedTo(node string) (ids []string) {
	all, err := l.attached.List(labels.Everything())
	if err != nil {
		return nil
	}
	for _, a := range all {
		if a.Spec.NodeName != node || a.Spec.Attacher == "" || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		pv, err := l.pvs.Get(*a.Spec.Source.PersistentVolumeName)
		if err == nil && pv.Spec.CSI != nil {
			ids = append(ids, attachment(a.Spec.Attacher, pv.Spec.CSI.VolumeHandle))
		}
	}
	return ids
}
