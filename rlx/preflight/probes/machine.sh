# Who and where: key=value lines.
show() { printf '%s=%s\n' "$1" "$2"; }
show user "$(id -un 2>/dev/null || id -u)"
show uid "$(id -u)"
show groups "$(id -Gn 2>/dev/null)"
show home "$HOME"
show name "$(uname -n)"
show kernel "$(uname -sr)"
show arch "$(uname -m)"
show distribution "$(sed -n 's/^PRETTY_NAME=//p' /etc/os-release 2>/dev/null | tr -d '"')"
show cpus "$(nproc 2>/dev/null || grep -c ^processor /proc/cpuinfo)"
show load "$(cut -d ' ' -f 1-3 /proc/loadavg)"
sed -n 's/^MemTotal: *\([0-9]*\) kB/memory_kib=\1/p; s/^MemAvailable: *\([0-9]*\) kB/memory_free_kib=\1/p' /proc/meminfo
show memory_limit "$(cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null)"
# Every sh has it, POSIX or not.
# shellcheck disable=SC3045
show open_files "$(ulimit -n)"
show shm_kib "$(df -Pk /dev/shm 2>/dev/null | sed -n '2{s/^[^ ]* *\([0-9]*\) .*/\1/;p;}')"
