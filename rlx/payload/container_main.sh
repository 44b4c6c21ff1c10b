#!/bin/sh
# The first process of a container that rlx made (container.sh), under docker's init. POSIX sh.
#
#   sh -c SCRIPT rlx-container KEEP ROOT
#
# With `keep` it waits for ever. Otherwise it ends, and docker removes the container, once no run has needed it for a
# while: nothing else runs in it, no run below ROOT waits for it or has not ended, and no launch has just come. An image
# may set another while, in seconds.
set -u
IDLE_S=${RLX_CONTAINER_IDLE_S:-300}
LOOK_S=5
WANTED=/tmp/.rlx-wanted

wanted() {
    if [ -e "$WANTED" ]; then
        rm -f "$WANTED"
        return 0
    fi
    has_guests || has_runs
}

# Whatever is not docker's init or this shell, which has no child now.
has_guests() {
    for process in /proc/[0-9]*; do
        case ${process#/proc/} in 1 | "$$") ;; *) return 0 ;; esac
    done
    return 1
}

has_runs() {
    for file in "$root"/runs/*/container; do
        run=${file%/container}
        [ -f "$file" ] && read -r id <"$file" && is_here "$id" && ! has_ended && return 0
    done 2>/dev/null
    return 1
}

# Docker mounts files of the container's own folder, which is named by its id.
is_here() {
    while read -r line; do
        case $line in *"/$1/"*) return 0 ;; esac
    done </proc/self/mountinfo
    return 1
}

# Its newest attempt has.
has_ended() {
    newest=1
    while [ -d "$run/attempts/$((newest + 1))" ]; do newest=$((newest + 1)); done
    [ -e "$run/attempts/$newest/state/exit" ]
}

keep=$1 root=$2 idle_s=0
while :; do
    # Never asked where it is to stay.
    if [ "$keep" = keep ] || wanted; then idle_s=0; fi
    [ "$idle_s" -lt "$IDLE_S" ] || exit 0
    sleep "$LOOK_S"
    idle_s=$((idle_s + LOOK_S))
done
