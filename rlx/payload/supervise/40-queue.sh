# ---- the queue -----------------------------------------------------------------------------------------------------
# $LEASES/tickets/<number>.<kind>     one file a waiting run: locked by its holder, says who, for which run, and for what:
#                                     how many devices, and which it could take
# $LEASES/devices/<kind>.<n>/         one folder a device: locked while a holder has it
# $LEASES/devices/<kind>.<n>/<uid>    the user's last claim: process, node and run, then the run's container, then the
#                                     process table, so that a run which outlives its holder still counts. One file a
#                                     user: another user's cannot be written in a sticky folder.
#
# Any user may put anything else there, and all of it may be another user's: links are not followed when writing (set -C),
# what is no plain file is not opened (a pipe would block), and no path that another user names is looked into.
#
# A run that delays no other may start: it goes past those that wait ahead of it if it starts on devices none of which any of
# them could take. To them it is then as if it were not there, however long it runs. A ticket that does not say what its
# run could take is one for any device.

TICKETS_S=15 # how long the folder of tickets may be locked: it takes a moment to draw one
FIRST=1000000000
MOST=1999999999
LONGEST_WISH=4096 # characters that a user may write of the devices that their run could take

# held_by FILE: in CULPRIT, who has the lock of it. The kernel knows who took it: that process may have ended, and have
# left its open file to another.
held_by() {
    CULPRIT="a process that only root can identify: fuser -v $1" CULPRIT_PID=
    inode=$(stat -c %i "$1")
    while read -r _ kind _ _ pid file _; do
        case "$kind $file" in "FLOCK "*":$inode") ;; *) continue ;; esac
        [ -e "/proc/$pid" ] || continue
        CULPRIT_PID=$pid
        CULPRIT="process $pid of $(stat -c %U "/proc/$pid"), $(cat "/proc/$pid/comm" 2>/dev/null)"
        break
    done </proc/locks
} 2>/dev/null

# same_owner FILE PID: the writer of the file names a process of their own. What runs in a container may have another
# user there: such a process counts, too.
same_owner() {
    # shellcheck disable=SC2046 # two numbers
    set -- "$2" $(stat -c %u "$1" "/proc/$2" 2>/dev/null)
    [ $# -eq 3 ] && { [ "$2" = "$3" ] || grep -qE '^NSpid:([[:space:]]+[0-9]+){2}' "/proc/$1/status"; } 2>/dev/null
}

# waits TICKET: it is that of a live process of its owner. Where the kernel hides processes (hidepid), the lock decides.
waits() {
    [ -r /proc/1/stat ] || return 0
    alive "$1" && same_owner "$1" "$PID"
}

locked() { ! flock -n 6 6<"$1" 2>/dev/null; }

# Numbers only grow while anybody waits. The folder's lock makes sure that a ticket is locked before a later one exists.
take_ticket() {
    exec 6<"$leases/tickets"
    if ! flock -w "$TICKETS_S" 6; then
        held_by "$leases/tickets"
        fail "$leases/tickets has been locked for $TICKETS_S s by $CULPRIT"
    fi
    find_last_ticket
    next=$((last + 1))
    # A file there without an owner is passed over.
    while [ -e "$leases/tickets/$next.$kind" ] || [ -L "$leases/tickets/$next.$kind" ]; do next=$((next + 1)); done
    ticket=$leases/tickets/$next.$kind
    umask 022
    set -C
    exec 8>"$ticket"
    set +C
    umask 077
    flock 8
    printf '%s\n' "$(ident $$)" "$run" "$count $could" >&8 ||
        { rm -f "$ticket" && fail "cannot write to $leases: is its disk full?"; }
    exec 6<&-
    put "$run/$TICKET_FILE" "$ticket"
}

# find_last_ticket: in last, the highest number of those that wait. A ticket without a waiting run does not count, and may be a
# number that leaves no higher one.
find_last_ticket() {
    last=$FIRST
    for other in "$leases/tickets/"*; do
        number=${other##*/}
        number=${number%%.*}
        case $number in *[!0-9]*) continue ;; esac
        if is_ticket && locked "$other" && waits "$other"; then last=$number highest=$other; fi
    done
    [ "$last" -lt "$MOST" ] || fail "$(stat -c %U "$highest") waits with the last number there is: $highest"
}

# is_ticket: $other has the name of one and is no link.
is_ticket() {
    case ${other##*/} in 1?????????.*) [ -f "$other" ] && [ ! -L "$other" ] ;; *) return 1 ;; esac
}

# find_wish: in count and could, how many devices the run wants, and the numbers of those that it could take.
find_wish() {
    case $wanted in
        =*)
            could=$(printf %s "${wanted#=}" | tr ',' ' ')
            # shellcheck disable=SC2086 # counting words is the point
            set -- $could
            count=$#
            ;;
        *) count=$wanted could=$NUMBERS ;;
    esac
}

# read_wish TICKET: the same of another run, in COUNT and COULD; fails if it does not say so.
read_wish() {
    { read -r _ && read -r _ && read -r COUNT COULD; } 2>/dev/null <"$1" || return 1
    case $COUNT$COULD in *[!0-9\ ]*) return 1 ;; esac
    [ -n "$COULD" ] && [ "${#COUNT}" -le 9 ] && [ "${#COULD}" -le "$LONGEST_WISH" ]
}

# without NUMBERS OTHERS: in REST, those of NUMBERS that are not among OTHERS.
without() {
    REST=
    for number in $1; do
        case " $2 " in *" $number "*) ;; *) REST="$REST $number" ;; esac
    done
    REST=${REST# }
}

# at_least COUNT NUMBER…
at_least() { [ $# -gt "$1" ]; }

# find_earlier: in open, the devices that the run could take and no run that waits ahead of it; in EARLIER, the nearest
# ticket ahead that alone leaves too few of them, so that the run cannot start before that one goes; fails without. An
# unlocked ticket has its devices, or a dead holder. No run comes in between: what was open once stays so.
find_earlier() {
    EARLIER='' open=$could
    for other in "$leases/tickets/"*".$kind"; do
        [ "$other" != "$ticket" ] || break
        is_ticket || continue
        if ! locked "$other"; then rm -f "$other" 2>/dev/null; elif waits "$other"; then yield_to "$other"; fi
    done
    [ -n "$EARLIER" ]
}

yield_to() {
    read_wish "$1" || COULD=$could
    without "$could" "$COULD"
    # shellcheck disable=SC2086 # counting words is the point
    at_least "$count" $REST || EARLIER=$1
    without "$open" "$COULD"
    open=$REST
}

wait_for_turn() {
    while ! withdrawn "$run" && find_earlier; do
        # Own locks closed: this flock may outlive the holder, and must not hold its place for it.
        flock -w 60 6 6<"$EARLIER" 7<&- 8<&- || sleep 1
    done 2>/dev/null
}

# busy DEVICE: in use; the first one that is locked is noted in LOCKED.
busy() {
    if locked "$1"; then
        LOCKED=${LOCKED:-$1}
        return 0
    fi
    for claim in "$1"/*; do claim_alive && return 0; done
    return 1
}

# claim_alive: the process of $claim lives, or the run that it names, in CLAIMED.
claim_alive() {
    CLAIMED=
    [ -f "$claim" ] && [ ! -L "$claim" ] && { read -r _ _ _ written_on CLAIMED <"$claim"; } 2>/dev/null || return 1
    case $written_on in /*) CLAIMED="$written_on${CLAIMED:+ $CLAIMED}" ;; esac # of before rlx noted names
    { alive "$claim" && same_owner "$claim" "$PID"; } || { own "$CLAIMED" && run_alive "$CLAIMED" "$(claimed_in)"; }
}

# The container of the run that has $claim, for run_alive: by its holder, and not by the files of the run. Claims of
# before rlx noted it have one line.
claimed_in() {
    if own "$claim" && { read -r _ && read -r container; } <"$claim"; then
        printf '%s' " ${CLAIMED##*/}=$container "
    else
        printf any
    fi
}

# Looking at a run may mean to run its supervise.sh in its container.
# shellcheck disable=SC3067 # dash and busybox have it
own() { [ -O "$1" ]; }

# Locks the wanted devices, one flock process each, and goes on as `held` inside; returns $CONFLICT if they are not
# free. The flocks keep the locks to themselves (-o), so nothing that the run starts can inherit one.
with_devices() {
    find_free
    choose_devices || return "$CONFLICT"
    find_foreign "$kind"
    if [ -n "$FOREIGN" ]; then
        drop_foreign
        choose_devices || { tell_foreign && return "$CONFLICT"; }
    fi
    rm -f "$run/$FOREIGN_FILE"
    set -- sh "$SELF" held "$run" "$leases" "$kind" "${devices# }" "$ticket" "$CONTAINER" "$INNER"
    for number in $devices; do
        set -- flock -n -o -E "$CONFLICT" "$leases/devices/$kind.$number" "$@"
    done
    "$@"
}

find_free() {
    free='' LOCKED=''
    for number in $open; do
        busy "$leases/devices/$kind.$number" || free="$free $number"
    done
}

# choose_devices: in $devices, the first of the free ones, as many as are wanted; fails if they are too few.
choose_devices() {
    devices='' needed=$count
    for number in $free; do
        [ "$needed" -gt 0 ] || break
        devices="$devices $number"
        needed=$((needed - 1))
    done
    [ "$needed" -eq 0 ]
}

# claim PID: say on every device whose it is, and in which container; fails if that cannot be written.
claim() {
    who=$(ident "$1") || return 0
    for number in $devices; do
        claim_file "$number"
        (umask 022 && put "$CLAIM" "${who% *} $run$NEWLINE$CONTAINER$NEWLINE${who##* }") || return 1
    done
}

# Only what is over for good lets go: a claim that stays makes others look whether the run lives on.
unclaim() {
    for number in $devices; do claim_file "$number" && rm -f "$CLAIM"; done
}

# claim_file NUMBER: in CLAIM, this user's file on the device; another name where another user has taken it.
claim_file() {
    CLAIM=$leases/devices/$kind.$1/$(id -u)
    [ ! -e "$CLAIM" ] || own "$CLAIM" || CLAIM=$CLAIM-${run##*/}
}
