# The programs that rlx and its launch scripts call, and whether they take the options that rlx gives them.
for tool in sh bash tar gzip mktemp setsid flock stat tail xargs grep awk sed od timeout tmux git python3; do
    path=$(command -v "$tool" 2>/dev/null) && printf '%s=%s\n' "$tool" "$path"
done
# As supervise.sh takes its locks; exit code 9 means that the lock is taken, so the options are known.
flock -n -o -E 9 /dev/null true 2>/dev/null
case $? in 0 | 9) echo flock_options=yes ;; esac
if stat -c %s / >/dev/null 2>&1; then echo stat_format=yes; fi
if tail --pid=$$ /dev/null 2>/dev/null; then echo tail_pid=yes; fi
printf 'tmux_version=%s\n' "$(tmux -V 2>/dev/null)"
