# The head of the composite script: `sh -s MARK`, on stdin. The probes follow, each as a call.
# Lines that begin with MARK frame the answers; MARK is random, so that no output can forge a frame.
# shellcheck shell=sh disable=SC2034,SC2209  # what follows uses them; `sh` is meant as a word
mark=$1
shell=sh
printf '%s time %s\n' "$mark" "$(date +%s)"

if timeout -k 1 5 true 2>/dev/null; then limit() { timeout -k 2 "$@"; }
elif timeout 5 true 2>/dev/null; then limit() { timeout "$@"; }
elif timeout -t 5 true 2>/dev/null; then limit() { timeout -t "$@"; }
else limit() { shift && "$@"; }
fi

# probe NAME SECONDS SCRIPT ARGUMENT...: runs the script and frames its output.
# The work runs in the background, and a reader with its own limit waits for it: a process that hangs in a driver
# ignores every signal, and must not delay the next probe or the connection. Until then a shell also waits for the work,
# since process 1 of a container may not reap it and would keep zombies. Only /proc has the pid of a part of a pipe.
probe() {
    name=$1 seconds=$2 body=$3
    shift 3
    printf '\n%s begin %s\n' "$mark" "$name"
    {
        read -r waiting _ </proc/self/stat && echo "$waiting"
        {
            limit "$seconds" "$shell" -c "$body" "rlx-$name" "$@"
            printf '\n%s end %s %d\n' "$mark" "$name" "$?"
        } </dev/null 2>&1 &
        wait
    } | {
        read -r waiting
        limit $((seconds + 3)) cat || kill "$waiting"
    }
}

# enter CONTAINER SECONDS: runs the composite script on stdin in the container.
enter() {
    printf '\n%s begin enter\n' "$mark"
    limit "$2" docker exec -i "$1" sh -s "$mark-inside" 2>&1
    printf '\n%s end enter %d\n' "$mark" "$?"
}
