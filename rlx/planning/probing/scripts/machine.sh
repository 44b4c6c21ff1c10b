# Who and where: key=value lines. A launch waits for this, so as few programs as can be.
show() { printf '%s=%s\n' "$1" "$2"; }

# What id says: `uid=0(root) gid=0(root) groups=0(root),7(lp)`; a number without a name stands alone.
who=$(id 2>/dev/null)
rest=${who#uid=}
uid=${rest%%[!0-9]*}
rest=${rest#"$uid"}
user=$uid
case $rest in '('*) user=${rest#'('} user=${user%%')'*} ;; esac
groups=
set -f
IFS=,
for group in ${who##*groups=}; do
    group=${group#*'('}
    groups="$groups ${group%')'}"
done
unset IFS
set +f
show user "$user"
show uid "$uid"
show groups "${groups# }"
show home "$HOME"
uname -snrm | {
    read -r system name release arch
    show name "$name"
    show kernel "$system $release"
    show arch "$arch"
}
while IFS='=' read -r key value; do
    [ "$key" != PRETTY_NAME ] || { value=${value#\"} && show distribution "${value%\"}"; }
done 2>/dev/null </etc/os-release
show cpus "$(nproc 2>/dev/null || grep -c ^processor /proc/cpuinfo)"
read -r one five fifteen _ </proc/loadavg && show load "$one $five $fifteen"
while read -r key value _; do
    case $key in
        MemTotal:) show memory_kib "$value" ;;
        MemAvailable:) show memory_free_kib "$value" && break ;;
    esac
done </proc/meminfo
memory_limit=
for file in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
    [ ! -r "$file" ] || { read -r memory_limit <"$file" && break; }
done
show memory_limit "$memory_limit"
# Every sh has it, POSIX or not.
# shellcheck disable=SC3045
show open_files "$(ulimit -n)"
df -Pk /dev/shm 2>/dev/null | { read -r _ && read -r _ total _ && show shm_kib "$total"; }
