#!/bin/bash
# kind asks docker for --privileged. Where the engine itself lacks CAP_SYS_RESOURCE that fails; this
# asks for all the rest instead.
real=REAL_DOCKER
case $1 in run|exec)
  verb=$1; args=()
  for a in "$@"; do
    if [ "$a" = --privileged ]; then
      [ "$verb" = run ] && args+=(--cap-add ALL --cap-drop SYS_RESOURCE --security-opt systempaths=unconfined --device-cgroup-rule 'a *:* rwm' --device /dev/kmsg --device /dev/fuse)
    else args+=("$a"); fi
  done
  exec "$real" "${args[@]}";;
esac
exec "$real" "$@"
