#!/bin/sh
# Starts a run, keeps watch over it, records how it ended, and tells what it knows. POSIX sh on Linux.
#
#   accept INCOMING ROOT LEASES SOCKET   put shipped runs in their place and start their holders, in order
#   hold RUN LEASES KIND COUNT           wait in ticket order for COUNT devices, start the supervisor, show the log
#   held RUN LEASES KIND DEVICES TICKET  the second half of hold, started while flock holds the devices
#   run RUN DEVICES                      supervise launch.sh; at most once in the life of a run
#   lead RUN                             leader of the run's process group: runs launch.sh, records its exit
#   stop RUN GRACE                       end everything that belongs to the run, and check that it is gone
#   report ROOT [ID…]                    facts about all runs, or about these; writes nothing
#   manifests ROOT [ID…]                 their manifests, each followed by a NUL byte
#
# A process is known by pid, start tick and boot id, since pids are reused. What belongs to a run is found by RLX_RUN
# in its environment, which also finds what left the process group. Waits go by /proc/uptime: clocks are set.
# Functions that run often answer in a variable instead of on stdout: a $(…) would cost a process each time.
set -u
umask 077

read -r BOOT </proc/sys/kernel/random/boot_id
CONFLICT=99      # what flock is told to exit with when somebody else has the device
HEARTBEAT_S=5
KILL_S=5         # how long a process may take to vanish after SIGKILL
SWEEP_GRACE_S=10 # what outlives the leader gets this long after SIGTERM
HOLDER_START_S=20
TMUX_RETRY_S=3
NEWLINE='
'

# ---- processes -----------------------------------------------------------------------------------------------------

# Not 1: with that, stop says that something is left.
fail() {
    printf '%s\n' "$*" >&2
    exit 2
}

nap() { sleep "$1" 2>/dev/null || sleep 1; }

clock() { IFS=. read -r NOW _ </proc/uptime; } # whole seconds since boot, in NOW

# start_tick PID: the tick PID started at, in TICK; fails when it is gone or a zombie.
start_tick() {
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    # shellcheck disable=SC2086 # splitting into fields is the point
    set -- ${stat##*) }
    case ${1:-Z} in Z | X) return 1 ;; *) TICK=${20} ;; esac
}

ident() { start_tick "$1" && printf '%s\n' "$1 $TICK $BOOT"; }

# alive FILE: the very process that FILE names still runs. PID is set. A torn or empty file names nobody.
alive() {
    { read -r PID tick boot _ <"$1"; } 2>/dev/null || return 1
    case $PID in '' | *[!0-9]*) return 1 ;; esac
    [ "$boot" = "$BOOT" ] && start_tick "$PID" && [ "$TICK" = "$tick" ]
}

gone() { ! alive "$1"; }

# within SECONDS CONDITION…: wait until the condition holds; fails if it does not in time.
within() {
    clock
    until_s=$((NOW + $1))
    shift
    until "$@"; do
        clock
        [ "$NOW" -lt "$until_s" ] || return 1
        nap 0.05
    done
}

# members ID: the pids of all processes that carry the run's mark.
members() {
    grep -lzxF "RLX_RUN=$1" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ pid _; do
        printf '%s\n' "$pid"
    done
}

# ---- files of a run ------------------------------------------------------------------------------------------------

# put FILE TEXT: the file has the old text or the new one, never half of it.
put() {
    { printf '%s\n' "$2" >"$1.tmp.$$" && mv -f "$1.tmp.$$" "$1"; } 2>/dev/null || { rm -f "$1.tmp.$$" && false; }
}

# The newest attempt of a run, in ATTEMPT and STATE.
find_attempt() {
    newest=1
    while [ -d "$1/attempts/$((newest + 1))" ]; do newest=$((newest + 1)); done
    ATTEMPT=$1/attempts/$newest
    STATE=$ATTEMPT/state
}

# record WHO CODE: how the run ended. The space was reserved before the disk could fill, it is overwritten in place
# and published by link(2): the first writer wins, and nobody reads half a record.
record() {
    [ -e "$STATE/reserved.$1" ] || return 0
    printf '%-62s\n' "$2 $1 $(date +%s) $(cut -d' ' -f1 /proc/uptime)" 1<>"$STATE/reserved.$1"
    ln "$STATE/reserved.$1" "$STATE/exit" 2>/dev/null
    rm -f "$STATE/reserved.$1"
}

# In a subshell: callers ask about other runs than their own.
run_alive() (
    find_attempt "$1"
    alive "$STATE/supervisor" || alive "$STATE/leader" || [ -n "$(members "${1##*/}")" ]
)

# ---- ending processes ----------------------------------------------------------------------------------------------

# end_processes RUN GRACE: TERM once to each process of the run, KILL after GRACE seconds. ENDED lists the pids that were
# told to end, LEFT those that did not; fails if there are any.
end_processes() {
    clock
    limit=$((NOW + $2))
    if alive "$STATE/leader"; then GROUP=$PID; fi
    while LEFT=$(members "${1##*/}" | tr '\n' ' ') && [ -n "$LEFT" ]; do
        clock
        [ "$NOW" -lt $((limit + KILL_S)) ] || return 1
        for pid in $LEFT; do end_process "$pid"; done
        nap 0.1
    done
    # Whoever cleared its environment carries no mark, but may still be in the leader's group.
    [ -z "$GROUP" ] || kill -s KILL -- "-$GROUP" 2>/dev/null
    return 0
}

end_process() {
    told=
    case " $ENDED " in *" $1 "*) told=1 ;; *) ENDED="$ENDED $1" ;; esac
    if [ "$NOW" -ge "$limit" ]; then
        kill -s KILL "$1"
    elif [ -z "$told" ]; then
        # Once only: a second TERM makes some programs drop their orderly end.
        kill -s TERM "$1"
    fi 2>/dev/null
}

# clean_up RUN GRACE: what a run may leave on the host once its leader is gone.
clean_up() {
    end_processes "$1" "$2"
    rm -f "$1/env" "$STATE"/reserved.*
    { read -r ray_tmp <"$STATE/ray_tmp"; } 2>/dev/null || return 0
    case $ray_tmp in /tmp/rlx-??????) rm -rf "$ray_tmp" ;; esac
}

# ---- devices and the queue -----------------------------------------------------------------------------------------
# $LEASES/tickets/<number>.<kind>     one file a waiting run: locked by its holder, says who and for which run
# $LEASES/devices/<kind>.<n>/         one folder a device: locked while a holder has it
# $LEASES/devices/<kind>.<n>/<uid>    the user's last claim: process and run, so that a run which outlives its holder
#                                     still counts. One file a user: nobody can write another's in a sticky folder.

numbers_of() {
    case $1 in
        cpu) echo 0 && return ;;
        cuda) set -- /dev/nvidia ;;
        npu) set -- /dev/davinci ;;
        *) return ;;
    esac
    for node in "$1"[0-9]*; do
        [ ! -e "$node" ] || printf '%s\n' "${node#"$1"}"
    done | sort -n
}

# prepare_leases LEASES KIND COUNT
prepare_leases() {
    available=$(numbers_of "$2" | wc -l)
    [ "$available" -ge "$3" ] || fail "the run needs $3 $2 device(s), this host has $((available))"
    open_folder "$1"
    open_folder "$1/tickets"
    open_folder "$1/devices"
    for number in $(numbers_of "$2"); do open_folder "$1/devices/$2.$number"; done
}

open_folder() {
    # shellcheck disable=SC2174 # the folders above it exist, or belong to this user alone
    [ -d "$1" ] || mkdir -p -m 1777 "$1" || [ -d "$1" ] || fail "cannot create the lease folder $1"
    [ -w "$1" ] || fail "the lease folder $1 is not writable"
}

locked() { ! flock -n 6 6<"$1" 2>/dev/null; }

# Numbers only grow while anybody waits. The folder's lock makes sure that a ticket is locked before a later one exists.
take_ticket() {
    exec 6<"$leases/tickets"
    flock 6
    last=1000000000
    for other in "$leases/tickets/"*; do
        number=${other##*/}
        number=${number%%.*}
        case $number in '' | *[!0-9]*) ;; *) last=$number ;; esac
    done
    ticket=$leases/tickets/$((last + 1)).$kind
    umask 022
    exec 8>"$ticket"
    umask 077
    flock 8
    printf '%s\n' "$(ident $$)" "$run" >&8
    exec 6<&-
    put "$run/ticket" "$ticket"
}

# The nearest earlier ticket that somebody holds, in EARLIER. An unlocked ticket has its devices, or a dead holder.
find_earlier() {
    EARLIER=
    for other in "$leases/tickets/"*".$kind"; do
        [ "$other" != "$ticket" ] || break
        if locked "$other"; then EARLIER=$other; else rm -f "$other" 2>/dev/null; fi
    done
    [ -n "$EARLIER" ]
}

wait_for_turn() {
    while find_earlier; do
        # Own locks closed: this flock may outlive the holder, and must not hold its place for it.
        flock 6 6<"$EARLIER" 7<&- 8<&- || sleep 1
    done 2>/dev/null
}

# busy DEVICE: in use; the first one that is locked is noted in LOCKED.
busy() {
    if locked "$1"; then
        LOCKED=${LOCKED:-$1}
        return 0
    fi
    for claim in "$1"/*; do
        alive "$claim" && return 0
        { read -r _ _ _ claimed <"$claim"; } 2>/dev/null && [ -d "$claimed" ] && run_alive "$claimed" && return 0
    done
    return 1
}

# Locks $count free devices, one flock process each, and goes on as `held` inside; returns $CONFLICT if there are too
# few. The flocks keep the locks to themselves (-o), so nothing that the run starts can inherit one.
with_devices() {
    needed=$count devices='' LOCKED=''
    for number in $(numbers_of "$kind"); do
        [ "$needed" -gt 0 ] || break
        busy "$leases/devices/$kind.$number" && continue
        devices="$devices $number"
        needed=$((needed - 1))
    done
    [ "$needed" -eq 0 ] || return "$CONFLICT"
    set -- sh "$0" held "$run" "$leases" "$kind" "${devices# }" "$ticket"
    for number in $devices; do
        set -- flock -n -o -E "$CONFLICT" "$leases/devices/$kind.$number" "$@"
    done
    "$@"
}

# claim PID: say on every device whose it is.
claim() {
    who=$(ident "$1") || return 0
    for number in $devices; do
        (umask 022 && put "$leases/devices/$kind.$number/$(id -u)" "$who $run")
    done
}

# ---- the holder ----------------------------------------------------------------------------------------------------

startable() {
    find_attempt "$1"
    [ ! -e "$STATE/started" ] && [ ! -e "$STATE/exit" ] && [ ! -e "$1/stop" ]
}

hold() {
    run=$1 leases=$2 kind=$3 count=$4
    # The terminal may go away with tmux, and a person who watches may press Ctrl-C: neither ends the run.
    trap '' HUP INT QUIT TSTP
    cd /
    exec 2>>"$run/holder.log" 7<"$run"
    flock -n 7 || fail "another holder has this run"
    startable "$run" || fail "this run was started or stopped before"
    take_ticket
    put "$run/holder" "$(ident $$)" || fail "cannot write to $run"
    printf '%s\n' "rlx: waiting for $count $kind device(s)"
    wait_for_turn
    while with_devices; [ $? -eq "$CONFLICT" ]; do
        # Looks again as soon as the holder of a device lets go, or in a second: another device may become free, and
        # a run that outlived its holder has no lock to wait for.
        { [ -n "$LOCKED" ] && flock -w 1 -E 0 6 6<"$LOCKED" 7<&- 8<&-; } || sleep 1 7<&- 8<&-
    done
}

held() {
    run=$1 leases=$2 kind=$3 devices=$4 ticket=$5 viewer=''
    find_attempt "$run"
    put "$run/holder" "$(ident $$)"
    claim $$
    setsid sh "$0" run "$run" "$devices" </dev/null >/dev/null 7<&- 8<&- &
    supervisor=$!
    claim "$supervisor"
    rm -f "$ticket" "$run/ticket"
    flock -u 8
    if [ -t 1 ]; then
        # Where tail can, it goes when a killed holder goes: it ignores the hang-up of its terminal, as the holder does.
        own=
        if tail --pid=$$ /dev/null 2>/dev/null; then own=--pid=$$; fi
        # shellcheck disable=SC2086 # no word, or one
        tail $own -n +1 -F "$ATTEMPT/log" 2>/dev/null 7<&- 8<&- &
        viewer=$!
    fi
    wait "$supervisor"
    # Normally everything is over now. A killed supervisor leaves the rest of its work to the holder.
    while alive "$STATE/leader"; do sleep 1; done
    clean_up "$run" "$SWEEP_GRACE_S"
    [ -z "$viewer" ] || kill "$viewer" 2>/dev/null
    return 0
}

# ---- the supervisor ------------------------------------------------------------------------------------------------

run() {
    run=$1
    trap '' HUP INT QUIT PIPE
    cd /
    find_attempt "$run"
    mkdir "$STATE/started" 2>/dev/null || fail "this run was started before"
    if ! { put "$STATE/supervisor" "$(ident $$)" && make_ray_tmp; }; then
        printf '%s\n' "rlx: cannot write to $run or /tmp" | tee -a "$ATTEMPT/log" >&2
        record supervisor 74
        clean_up "$run" 0
        exit 74
    fi
    beat &
    heart=$!
    start_leader "$(printf %s "$2" | tr ' ' ',')"
    await_leader
    record supervisor "$code"
    kill "$heart" 2>/dev/null
    GROUP=$leader
    clean_up "$run" "$SWEEP_GRACE_S"
}

# Short, because Ray puts sockets into it whose paths are limited to 107 bytes; private, because of the token.
make_ray_tmp() {
    ray_tmp=$(mktemp -d /tmp/rlx-XXXXXX) || return 1
    put "$STATE/ray_tmp" "$ray_tmp" || return 1
    head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$ray_tmp/token"
    [ -s "$ray_tmp/token" ]
}

beat() {
    trap 'kill "${!-}" 2>/dev/null; exit' TERM
    while kill -0 $$ 2>/dev/null; do
        now=$(date +%s)
        put "$STATE/heartbeat" "$now $(cut -d' ' -f1 /proc/uptime)"
        # Dates the lines of a log that carry no time themselves.
        printf '%s\n' "$now $(stat -c %s "$ATTEMPT/log")" >>"$STATE/clock"
        sleep "$HEARTBEAT_S" &
        wait $!
    done
}

# The mark is set here and nowhere before: in the environment of tmux it would pass to strangers.
start_leader() {
    # A shell starts what it sends to the background with INT ignored; where env can undo that, it does.
    reset=
    if env --default-signal true 2>/dev/null; then reset='env --default-signal'; fi
    # shellcheck disable=SC2086 # no word, or two
    RLX_RUN=${run##*/} RLX_RUN_DIR=$run RLX_ATTEMPT_DIR=$ATTEMPT RLX_RAY_TMP=$ray_tmp RLX_DEVICES=$1 \
        setsid $reset sh "$0" lead "$run" </dev/null >>"$ATTEMPT/log" 2>&1 &
    leader=$!
}

await_leader() {
    trap 'told=1; kill -s TERM -- "-$leader" 2>/dev/null' TERM
    told=1
    while [ -n "$told" ]; do
        told=''
        wait "$leader"
        code=$?
    done
}

lead() {
    run=$1
    find_attempt "$run"
    put "$STATE/leader" "$(ident $$)"
    # TERM goes to the whole group; the leader outlives it to record how launch.sh took it.
    trap : HUP INT QUIT TERM
    if [ -e "$run/stop" ]; then
        code=143
    else
        (launch)
        code=$?
    fi
    record leader "$code"
    exit "$code"
}

launch() {
    cd "$run" || exit 74
    if [ -e env ]; then
        # shellcheck disable=SC1091 # written by rlx: one export a secret
        . ./env
        rm -f env && [ ! -e env ] || exit 74
    fi
    exec bash ./launch.sh
}

# ---- stop ----------------------------------------------------------------------------------------------------------

stop() {
    run=$(expand "$1") || exit
    grace=$2 was_alive=''
    [ -d "$run" ] || fail "there is no $run"
    find_attempt "$run"
    if alive "$run/holder" || alive "$STATE/supervisor" || alive "$STATE/leader"; then was_alive=1; fi
    # The marker comes first: what has not started yet then does not start any more.
    if [ ! -e "$STATE/exit" ]; then put "$run/stop" "$(date +%s) $grace" || : >"$run/stop"; fi
    [ -e "$STATE/started" ] || end_holder
    end_processes "$run" "$grace"
    # The supervisor ends by itself once nothing is left for it to watch.
    if ! within "$KILL_S" gone "$STATE/supervisor"; then
        kill -s KILL "$PID"
        ENDED="$ENDED $PID"
        end_processes "$run" 0
    fi
    [ -z "$was_alive" ] || record stop 143
    clean_up "$run" 0
    printf 'ended%s\nleft %s\n' "$ENDED" "$LEFT"
    [ -z "$LEFT" ]
}

# A holder that waits is the leader of its own process group: tmux and setsid both see to that.
end_holder() {
    alive "$run/holder" || return 0
    ENDED="$ENDED $PID"
    kill -s TERM -- "-$PID" 2>/dev/null
    within "$KILL_S" gone "$run/holder" || kill -s KILL -- "-$PID" 2>/dev/null
    rm -f "$run/ticket"
}

# ---- report --------------------------------------------------------------------------------------------------------
# First line: `now <epoch>`. Then a line a run that exists: `run <id> <key>=<value>…`. Last, a line a file:
# `file <id>/<path> <bytes> <time>`.

report() {
    choose_runs "$@"
    printf 'now %s\n' "$(date +%s)"
    find_marked
    FILES=
    for id in $RUNS; do report_run "$root/runs/$id" "$id"; done
    # One process for all files of all runs.
    # shellcheck disable=SC2086 # one word a file
    cd "$root/runs" 2>/dev/null && printf '%s\n' $FILES | xargs stat -c 'file %n %s %Y' 2>/dev/null
    return 0
}

manifests() {
    choose_runs "$@"
    for id in $RUNS; do
        cat "$root/runs/$id/manifest.json" 2>/dev/null && printf '\0'
    done
    return 0
}

# choose_runs ROOT [ID…]: in RUNS, these ids, or all names below ROOT that can be run ids; those contain no blanks.
choose_runs() {
    root=$(expand "$1") || exit
    shift
    RUNS=$*
    [ -z "$RUNS" ] || return 0
    for run in "$root/runs/"*/manifest.json; do
        id=${run%/manifest.json}
        id=${id##*/}
        case $id in *[!A-Za-z0-9._-]* | -*) ;; *) [ ! -e "$run" ] || RUNS="$RUNS $id" ;; esac
    done
}

# One pass over the process table for all runs: the run of each marked process, in MARKED.
find_marked() {
    # shellcheck disable=SC2062,SC2086 # these are files, not a pattern; one word a run
    MARKED=$(printf 'RLX_RUN=%s\n' $RUNS | grep -hzxF -f - /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n')
}

# Processes are looked at before the files they write at their end: whoever is seen dead has written already.
report_run() {
    [ -d "$1" ] || return
    find_attempt "$1"
    line="run $2 attempt=${ATTEMPT##*/}" ahead=0
    add_life holder "$1/holder"
    add_life supervisor "$STATE/supervisor"
    add_life leader "$STATE/leader"
    count_marked "$2"
    { read -r ticket <"$1/ticket"; } 2>/dev/null && count_ahead "$ticket"
    here=$2/attempts/${ATTEMPT##*/} ended=
    FILES="$FILES $2/manifest.json $2/stop $here/log $here/metrics.jsonl $here/state/started"
    { read -r code who epoch _ <"$STATE/exit"; } 2>/dev/null && ended="exit=$code,$who,$epoch"
    printf '%s\n' "$line members=$marked ahead=$ahead $ended"
}

add_life() {
    life=none
    [ ! -e "$2" ] || life=dead
    if alive "$2"; then life=live; fi
    line="$line $1=$life"
}

count_marked() {
    marked=0
    for mark in $MARKED; do
        [ "$mark" != "RLX_RUN=$1" ] || marked=$((marked + 1))
    done
}

# count_ahead TICKET: the runs that wait before this one, and those that have devices of its kind.
count_ahead() {
    kind=${1##*.} claimants=' '
    for other in "${1%/*}/"*".$kind"; do
        [ "$other" != "$1" ] || break
        if alive "$other"; then ahead=$((ahead + 1)); fi
    done
    for claim in "${1%/tickets/*}/devices/$kind."*/*; do
        { read -r _ _ _ claimed <"$claim"; } 2>/dev/null || continue
        case $claimants in *" ${claimed##*/} "*) continue ;; esac
        claimants="$claimants${claimed##*/} "
        if alive "$claim" || run_alive "$claimed"; then ahead=$((ahead + 1)); fi
    done
}

# ---- accept --------------------------------------------------------------------------------------------------------
# The caller holds the lock of ROOT/runs on fd 5 and removes INCOMING afterwards. INCOMING/order has a line a run:
# `<id> <kind> <count>`. Prints `started <id>`, `existing <id>` or `warning <text>` lines, all of them at the end: the
# reader may be gone, and a broken pipe must not end a launch half way.

accept() {
    incoming=$1 root=$2 leases=$3 socket=$4
    # The order comes last in the archive: it is whole only if everything before it is.
    [ "$(tail -n 1 "$incoming/order" 2>/dev/null)" = end ] || fail "the shipment arrived incomplete"
    while read -r id kind count; do
        [ "$id" = end ] || prepare_leases "$leases" "$kind" "$count"
    done <"$incoming/order"
    results=
    case $(stat -f -c %T "$root" 2>/dev/null) in
        tmpfs | ramfs) results="warning $root lies in memory: its runs go when this machine restarts$NEWLINE" ;;
    esac
    while read -r id kind count; do
        [ "$id" = end ] || accept_run
    done <"$incoming/order"
    printf %s "$results"
}

accept_run() {
    run=$root/runs/$id fresh=
    if [ ! -e "$run" ]; then
        mv "$incoming/$id" "$run" || fail "cannot create $run"
        fresh=1
    fi
    outcome=existing
    if startable "$run" && ! alive "$run/holder"; then
        start_holder </dev/null
        outcome=started
    fi
    results=$results$outcome\ $id$NEWLINE
}

# fd 5 is closed: the server that tmux may start here would keep the lock for ever.
start_holder() {
    set -- sh "$run/supervise.sh" hold "$run" "$leases" "$kind" "$count"
    for name in HOME USER LOGNAME PATH SHELL LANG LC_ALL LC_CTYPE TMPDIR TERM; do
        eval "value=\${$name-}"
        [ -z "$value" ] || set -- "$name=$value" "$@"
    done
    rm -f "$run/holder"
    if command -v tmux >/dev/null; then
        session=$(printf %s "$id" | tr '.:' '__')
        # Again for a while: a tmux server whose last session just ended may refuse the next one.
        within "$TMUX_RETRY_S" start_session "$@" || take_back "tmux could not start a session: $said"
    else
        setsid env -i "$@" </dev/null >>"$run/holder.log" 2>&1 5<&- &
    fi
    within "$HOLDER_START_S" test -e "$run/holder" ||
        take_back "the holder of $id did not start: $(tail -n 3 "$run/holder.log" 2>/dev/null)"
}

# By its exit code alone tmux claims success in some cases in which it could not start its server. A session that is
# not there may be over already: then its holder was here.
start_session() {
    said=$(tmux -L "$socket" -f /dev/null new-session -d -s "$session" -x 200 -y 50 env -i "$@" 2>&1 5<&-)
    tmux -L "$socket" has-session -t "=$session" 2>/dev/null || [ -e "$run/holder" ]
}

# A run that cannot start leaves nothing behind, unless it was there before.
take_back() {
    if [ -n "$fresh" ]; then mv "$run" "$incoming/taken-back" && rm -rf "$incoming/taken-back"; fi
    printf %s "$results"
    fail "$1"
}

expand() {
    # shellcheck disable=SC2088 # the tilde is text here, and becomes this host's home
    case $1 in
        '~' | '~/'*) printf '%s\n' "${HOME:?}${1#'~'}" ;;
        *) printf '%s\n' "$1" ;;
    esac
}

ENDED='' LEFT='' GROUP=''
case ${1:-} in
    # The script itself may come on stdin, so no command may read from there.
    accept | hold | held | run | lead | stop | report | manifests) "$@" </dev/null ;;
    *) fail "usage: supervise.sh accept|hold|run|stop|report …" ;;
esac
