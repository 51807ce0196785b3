# The CRD of scheduling.x-k8s.io is that of scheduling.sigs.k8s.io with scheduler-plugins' group and its timeout of 0.
/api-approved/d
s/scheduling\.sigs\.k8s\.io/scheduling.x-k8s.io/
s/give their nodes back\. Default: defaultTimeout of/give their nodes back; 0 is as if it were not given. Default: defaultTimeout of/
/scheduleTimeoutSeconds:/,/type:/s/minimum: 1/minimum: 0/
