# CONTAINER [brief]: what of it concerns a run; briefly, without the digests of its image. Named fields only: its environment may hold secrets.
# `index`, because the daemon leaves out what is not set, and a missing name would be an error.
found=$(docker inspect --type container --format '{"id":{{json .Id}},"name":{{json .Name}},"image_id":{{json .Image}},"image":{{json .Config.Image}},"state":{{json .State.Status}},"started":{{json .State.StartedAt}},"mounts":{{json .Mounts}},"shm_bytes":{{json (index .HostConfig "ShmSize")}},"ipc":{{json (index .HostConfig "IpcMode")}},"init":{{json (index .HostConfig "Init")}},"restart":{{json .HostConfig.RestartPolicy.Name}},"ulimits":{{json (index .HostConfig "Ulimits")}},"privileged":{{json (index .HostConfig "Privileged")}},"network":{{json (index .HostConfig "NetworkMode")}},"pid":{{json (index .HostConfig "PidMode")}},"auto_remove":{{json (index .HostConfig "AutoRemove")}},"memory_bytes":{{json (index .HostConfig "Memory")}}}' "$1" 2>&1)
failed=$?
printf '%s\n' "$found"
[ "$failed" -eq 0 ] || exit "$failed"
[ "${2-}" != brief ] || exit 0
image=$(printf '%s\n' "$found" | sed -n 's/.*"image_id":"\([^"]*\)".*/\1/p')
docker image inspect --format '{{json .RepoDigests}}' "$image" 2>/dev/null
exit 0
