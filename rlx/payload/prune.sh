#!/bin/sh
# Removes what runs left on a host, and only that. POSIX sh on Linux. The parts of supervise.sh that name the files of a
# run and know its processes stand in front of it.
#
#   bury ROOT [ID TOMBSTONE]…                    keep what these runs were, beside them
#   unbury ROOT [ID]…                            take that back
#   measure ROOT [ID]…                           how large they are, with their checkpoints, and what cannot be removed
#   runs ROOT [ID CONTAINER TOMBSTONE]…          remove whole run directories; a tombstone stays
#   checkpoints ROOT [ID CONTAINER NAMES]…       remove these folders of their checkpoints
#
# CONTAINER is the id of the one that a run is known to have, `none`, or `taken-in` for logs that rlx only copied. Answers
# are lines; sizes are in KiB:
#
#   buried ID · unburied ID · run ID SIZE · latest ID STEP · checkpoint ID SIZE NAME · linked ID · trash SIZE
#   freed ID SIZE · left ID SIZE · swept SIZE · refused ID WHY
#
# What is removed is renamed into the trash first, under the lock that launches take: nothing half deleted is ever a run,
# and what an end of the connection leaves there goes with the next call.

LATEST=latest_checkpointed_iteration.txt
LOCK_S=30
# shellcheck disable=SC2034 # for the parts in front: this is the host, whatever its containers are
WITHIN=''

# shellcheck disable=SC3067 # dash and busybox have it
is_own() { [ -O "$1" ]; }

# go_to ROOT: from here on all paths are below its folder of runs, whatever is put in its place.
go_to() {
    expand "$1"
    cd "$EXPANDED/runs" 2>/dev/null || fail "there is no $EXPANDED/runs"
    is_own . || fail "$EXPANDED/runs belongs to another user"
}

refuse() { printf 'refused %s %s\n' "$1" "$2"; }

# is_mine ID: a run directory that rlx made for this user. WHY says what speaks against it. Links are never followed.
is_mine() {
    WHY=
    case $1 in
        '' | .* | -* | *[!A-Za-z0-9._-]*) WHY='that is no id of a run' ;;
        *)
            if [ -L "$1" ]; then
                WHY='its folder is a link to another place'
            elif [ ! -d "$1" ]; then
                WHY='gone'
            elif ! is_own "$1"; then
                WHY='its folder belongs to another user'
            elif [ -L "$1/$MANIFEST_FILE" ] || [ ! -f "$1/$MANIFEST_FILE" ] ||
                ! grep -qF "\"run_id\": \"$1\"" "$1/$MANIFEST_FILE" 2>/dev/null; then
                WHY="its $MANIFEST_FILE is not that of this run, so rlx did not make it"
            fi
            ;;
    esac
    [ -z "$WHY" ]
}

# is_over ID CONTAINER: nothing of it lives or waits, by what this host can see.
is_over() {
    [ "$2" != taken-in ] || return 0
    find_attempt "./$1"
    alive "$1/$HOLDER_FILE"
    holder=$?
    if elsewhere "./$1"; then
        WHY="it was started on $OTHER, which shares this folder: that host has to be asked"
    elif [ "$holder" -ne 1 ] || run_alive "./$1" " $1=$2 "; then
        WHY='it waits or runs'
    elif [ ! -e "$STATE/$EXIT_FILE" ] && [ ! -e "$STATE/$STARTED_DIR" ] && [ ! -e "$1/$STOP_FILE" ] &&
        [ ! -e "$1/$HOLDER_FILE" ]; then
        WHY='it has not begun yet'
    fi
    [ -z "$WHY" ]
}

# Only folders that this user may empty can go: what root of a container made would stay half deleted.
is_writable() {
    others=$(find "$1" -type d ! -user "$(id -u)" -print 2>/dev/null | head -n 1)
    [ -z "$others" ] || [ "$(id -u)" -eq 0 ] || WHY="$others belongs to another user, as of a container"
    [ -z "$WHY" ]
}

# tell_gone ID LINE: report as done what an earlier call removed without its answer being received.
tell_gone() {
    if [ "$WHY" = gone ] && [ -f "$TOMBSTONES_DIR/$1.json" ]; then printf '%s\n' "$2"; else refuse "$1" "$WHY"; fi
}

size_of() { SIZE=$(du -sk "$1" 2>/dev/null | cut -f 1) && [ -n "$SIZE" ] || SIZE=0; }

# ---- tombstones ----------------------------------------------------------------------------------------------------

# own_folder NAME: it is there, this user's, and no link.
own_folder() {
    { [ ! -L "$1" ] && mkdir -p "$1" && is_own "$1"; } 2>/dev/null || {
        WHY="$1 cannot be written beside the runs (read-only, full, or another user's)"
        return 1
    }
}

keep_tombstone() {
    own_folder "$TOMBSTONES_DIR" || return 1
    put "$TOMBSTONES_DIR/$1.json" "$2" || { WHY='its tombstone cannot be written: is the disk full or read-only?' && return 1; }
}

bury() {
    go_to "$1"
    shift
    while [ $# -ge 2 ]; do
        if is_mine "$1" && keep_tombstone "$1" "$2"; then printf 'buried %s\n' "$1"; else refuse "$1" "$WHY"; fi
        shift 2
    done
}

unbury() {
    go_to "$1"
    shift
    for id in "$@"; do
        if is_mine "$id" && rm -f "$TOMBSTONES_DIR/$id.json" 2>/dev/null; then
            printf 'unburied %s\n' "$id"
        else
            refuse "$id" "${WHY:-its tombstone cannot be removed: is the disk read-only?}"
        fi
    done
}

# ---- sizes ---------------------------------------------------------------------------------------------------------

measure() {
    go_to "$1"
    shift
    for id in "$@"; do
        is_mine "$id" || { tell_gone "$id" "run $id 0" && continue; }
        size_of "$id"
        printf 'run %s %s\n' "$id" "$SIZE"
        measure_checkpoints
    done
    [ ! -d "$TRASH_DIR" ] || [ -L "$TRASH_DIR" ] || [ -z "$(ls "$TRASH_DIR")" ] || { size_of "$TRASH_DIR" && printf 'trash %s\n' "$SIZE"; }
}

measure_checkpoints() {
    folder=$id/$CHECKPOINTS_DIR
    if [ -L "$folder" ]; then
        printf 'linked %s\n' "$id"
        return
    fi
    [ -d "$folder" ] || return 0
    if [ -f "$folder/$LATEST" ] && [ ! -L "$folder/$LATEST" ] && read -r step <"$folder/$LATEST"; then
        case $step in '' | *[!0-9]*) ;; *) printf 'latest %s %s\n' "$id" "$step" ;; esac
    fi 2>/dev/null
    for path in "$folder"/*; do
        is_checkpoint "$path" || continue
        size_of "$path"
        printf 'checkpoint %s %s %s\n' "$id" "$SIZE" "${path##*/}"
    done
}

# is_checkpoint PATH: a folder of this user whose name ends in a step, as those of all trainers do.
is_checkpoint() {
    name=${1##*/}
    case $name in *[!A-Za-z0-9._-]* | [!A-Za-z]*) return 1 ;; *[_-][0-9]*) ;; *) return 1 ;; esac
    case ${name##*[_-]} in *[!0-9]*) return 1 ;; esac
    [ ! -L "$1" ] && [ -d "$1" ] && is_own "$1"
}

# ---- removal -------------------------------------------------------------------------------------------------------

runs() {
    begin "$1"
    shift
    while [ $# -ge 3 ]; do
        if is_mine "$1" && is_over "$1" "$2" && is_writable "$1"; then throw_run "$1" "$3"; fi
        [ -z "$WHY" ] || tell_gone "$1" "freed $1 0"
        shift 3
    done
    empty_trash
}

# Its tombstone comes first. Where the run stays after all, so does what was said of it before.
throw_run() {
    before=$(cat "$TOMBSTONES_DIR/$1.json" 2>/dev/null)
    keep_tombstone "$1" "$2" || return 0
    throw "$1" "$1"
    [ -n "$WHY" ] || return 0
    if [ -n "$before" ]; then put "$TOMBSTONES_DIR/$1.json" "$before"; else rm -f "$TOMBSTONES_DIR/$1.json"; fi
}

checkpoints() {
    begin "$1"
    shift
    while [ $# -ge 3 ]; do
        if is_mine "$1" && is_over "$1" "$2"; then throw_checkpoints "$1" "$3"; fi
        [ -z "$WHY" ] || refuse "$1" "$WHY"
        shift 3
    done
    empty_trash
}

throw_checkpoints() {
    [ ! -L "$1/$CHECKPOINTS_DIR" ] || { WHY="its $CHECKPOINTS_DIR are a link to another place, and stay" && return; }
    for name in $2; do
        case $name in */*) continue ;; esac
        path=$1/$CHECKPOINTS_DIR/$name
        if is_checkpoint "$path" && is_writable "$path"; then throw "$path" "$1"; fi
        [ -z "$WHY" ] || return 0
    done
}

# Launches and other removals take turns with this one until all is renamed.
begin() {
    go_to "$1"
    TRASHED=''
    command -v flock >/dev/null || return 0
    exec 5<.
    flock -w "$LOCK_S" 5 2>/dev/null || fail "a launch to $1 is under way: try again when it is over"
}

# throw PATH ID: into the trash, of the same file system.
throw() {
    own_folder "$TRASH_DIR" || return 0
    clock
    target=$TRASH_DIR/$2.${1##*/}.$NOW.$$
    if mv "$1" "$target" 2>/dev/null; then TRASHED="$TRASHED $2=$target"; else WHY="$1 cannot be renamed: read-only, or in use as a mount"; fi
}

empty_trash() {
    exec 5<&-
    for entry in $TRASHED; do
        size_of "${entry#*=}"
        freed=$SIZE
        if delete "${entry#*=}"; then printf 'freed %s %s\n' "${entry%%=*}" "$freed"; else printf 'left %s %s\n' "${entry%%=*}" "$SIZE"; fi
    done
    sweep
}

# What an earlier call left there.
sweep() {
    [ -d "$TRASH_DIR" ] && [ ! -L "$TRASH_DIR" ] && is_own "$TRASH_DIR" || return 0
    swept=0
    for path in "$TRASH_DIR"/* "$TRASH_DIR"/.[!.]*; do
        [ -e "$path" ] || [ -L "$path" ] || continue
        case " $TRASHED " in *"=$path "*) continue ;; esac
        size_of "$path"
        freed=$SIZE
        if delete "$path"; then swept=$((swept + freed)); else printf 'left - %s\n' "$SIZE"; fi
    done
    rmdir "$TRASH_DIR" 2>/dev/null
    [ "$swept" -eq 0 ] || printf 'swept %s\n' "$swept"
}

# delete PATH: fails with what is left in SIZE. Nothing here follows a link that it meets on the way.
delete() {
    rm -rf "$1" 2>/dev/null && return
    find "$1" -type d ! -perm -u+rwx -exec chmod u+rwx {} \; 2>/dev/null
    rm -rf "$1" 2>/dev/null && return
    size_of "$1"
    return 1
}

case ${1:-} in
    bury | unbury | measure | runs | checkpoints) "$@" </dev/null ;;
    *) fail "usage: prune.sh bury|unbury|measure|runs|checkpoints ROOT …" ;;
esac
