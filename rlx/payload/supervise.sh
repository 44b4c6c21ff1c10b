#!/bin/sh
# Starts a run, keeps watch over it, records how it ended, and tells what it knows. POSIX sh on Linux.
#
#   accept INCOMING ROOT LEASES SOCKET   put shipped runs in their place and start their holders, in order
#   hold RUN LEASES KIND WANTED          wait in ticket order for the devices, start the supervisor, show the log
#   held RUN LEASES KIND DEVICES TICKET  the second half of hold, started while flock holds the devices
#   run RUN DEVICES                      supervise launch.sh; at most once in the life of a run
#   lead RUN                             leader of the run's process group: runs launch.sh, records its exit
#   stop RUN GRACE                       end everything that belongs to the run, and check that it is gone
#   report ROOT [ID…]                    facts about all runs, or about these; writes nothing
#   manifests ROOT [ID…]                 their manifests, each followed by a NUL byte
#   leases LEASES                        who holds the devices of this host, who waits, and what is foreign to rlx
#   inside run|stop|await|look RUN…      the part of these that runs in the container of a run
#
# WANTED is a number of devices, or a list of certain ones: `=0,2,3`.
# A process is known by pid, start tick and boot id, since pids are reused. What belongs to a run is found by RLX_RUN
# in its environment, which also finds what left the process group. Waits go by /proc/uptime: clocks are set.
# Functions that run often answer in a variable instead of on stdout: a $(…) would cost a process each time.
set -u
umask 077

read -r BOOT </proc/sys/kernel/random/boot_id
# How this user's docker finds its daemon.
DOCKER_NAMES='DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG DOCKER_CERT_PATH DOCKER_TLS_VERIFY XDG_RUNTIME_DIR'
CONFLICT=99      # what flock is told to exit with when somebody else has the device
HEARTBEAT_S=5
KILL_S=5         # how long a process may take to vanish after SIGKILL
SWEEP_GRACE_S=10 # what outlives the leader gets this long after SIGTERM
HOLDER_START_S=20
TMUX_RETRY_S=3
DOCKER_S=20  # a docker that hangs must not hang a report
FOREIGN_S=20 # nor an npu-smi
FOREIGN_NAP_S=10
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
    if contained "$1"; then contained_alive; else alive_here "$1"; fi
)

alive_here() {
    find_attempt "$1"
    alive "$STATE/supervisor" || alive "$STATE/leader" || [ -n "$(members "${1##*/}")" ]
}

# ---- runs in a container -------------------------------------------------------------------------------------------
# Their run directory has a file `container`: the full id, and the run directory as the container sees it. The holder is
# a process of the host; supervisor and leader are the container's. Their pids mean something only there, so the host
# asks inside, with the copy of this script that lies in the run directory.

# contained RUN: the processes of the run are in a container, and this is its host. CONTAINER and INNER are set.
contained() {
    [ -z "$WITHIN" ] && [ -e "$1/container" ] && { read -r CONTAINER && read -r INNER; } <"$1/container"
}

# enter VERB…: as long as it takes.
enter() {
    verb=$1
    shift
    docker exec "$CONTAINER" sh "$INNER/supervise.sh" inside "$verb" "$INNER" "$@" </dev/null
}

look_inside() {
    timeout "$DOCKER_S" docker exec "$CONTAINER" sh "$INNER/supervise.sh" inside look "$@" </dev/null 2>/dev/null
}

# find_statuses ID…: what docker says of these containers, in STATUSES.
find_statuses() {
    STATUSES=$NEWLINE$(timeout "$DOCKER_S" docker inspect --type container -f '{{.Id}} {{.State.Status}}' "$@" 2>&1)$NEWLINE
}

# status_of ID: in STATUS, docker's word for it; gone if there is none, unknown if docker does not say.
status_of() {
    case $STATUSES in
        *"$NEWLINE$1 "*) STATUS=${STATUSES#*"$NEWLINE$1 "} STATUS=${STATUS%%"$NEWLINE"*} ;;
        *[Nn]"o such "*"$1"*) STATUS=gone ;;
        *) STATUS=unknown ;;
    esac
}

# What docker says when it does not say how the container is.
find_complaint() {
    COMPLAINT=${STATUSES%"$NEWLINE"}
    COMPLAINT=${COMPLAINT##*"$NEWLINE"}
    COMPLAINT=${COMPLAINT:-no answer after $DOCKER_S s}
}

# Where nobody can tell, the run counts as alive: its devices must not go to another one.
contained_alive() {
    find_statuses "$CONTAINER"
    status_of "$CONTAINER"
    case $STATUS in
        running) seen=$(look_inside "$INNER") || return 0 ;;
        paused | unknown) return 0 ;;
        *) return 1 ;;
    esac
    case $seen in *=live* | *members=[1-9]*) ;; *) return 1 ;; esac
}

# host_pid FILE: in PID, the pid on this host of the process that FILE names as its container sees it.
host_pid() {
    { read -r inner tick _ <"$1"; } 2>/dev/null || return 1
    # shellcheck disable=SC2013 # a word is a file
    for status in $(grep -lE "^NSpid:.*[[:space:]]$inner\$" /proc/[0-9]*/status 2>/dev/null); do
        PID=${status#/proc/} PID=${PID%/status}
        start_tick "$PID" && [ "$TICK" = "$tick" ] && return 0
    done
    return 1
}

# The docker command is only a witness: the supervisor outlives it. Its session of its own keeps signals of the terminal
# away from it.
start_inside() {
    setsid docker exec "$CONTAINER" sh "$INNER/supervise.sh" inside run "$INNER" "$(positions)" \
        </dev/null >/dev/null 7<&- 8<&- &
    supervisor=$!
    within "$HOLDER_START_S" named_or_over
    if host_pid "$STATE/supervisor"; then claim "$PID"; fi
}

named_or_over() { [ -s "$STATE/supervisor" ] || ! start_tick "$supervisor"; }

# The docker command may have been killed, or its daemon restarted: that says nothing about the run.
await_inside() {
    until enter await; do
        [ -d "$run" ] || return 0
        find_statuses "$CONTAINER"
        status_of "$CONTAINER"
        case $STATUS in running | paused | unknown) sleep 2 ;; *) break ;; esac
    done
    # Whoever makes this folder decides whether the run has started; from here on it cannot any more.
    if mkdir "$STATE/started" 2>/dev/null; then
        printf 'rlx: the container could not be entered: %s\n' "$(tail -n 1 "$run/holder.log")" >>"$ATTEMPT/log"
        record supervisor 125
    fi
    rm -f "$run/env" "$STATE"/reserved.*
}

# Until nothing of the run is left.
await() {
    run=$1
    find_attempt "$run"
    while alive "$STATE/supervisor" || alive "$STATE/leader"; do sleep 1; done
    [ ! -e "$STATE/started" ] || clean_up "$run" "$SWEEP_GRACE_S"
}

# look RUN…: inside, a line a run: `in <id> <key>=<value>…`.
look() {
    RUNS=
    for run in "$@"; do RUNS="$RUNS ${run##*/}"; done
    find_marked
    for run in "$@"; do
        find_attempt "$run"
        line="in ${run##*/}"
        add_life supervisor "$STATE/supervisor"
        add_life leader "$STATE/leader"
        count_marked "${run##*/}"
        printf '%s\n' "$line members=$marked$(restarted)"
    done
}

# The container started after the run did.
restarted() {
    { read -r _ tick _ <"$STATE/supervisor"; } 2>/dev/null && start_tick 1 || return 0
    [ "$TICK" -le "${tick:-$TICK}" ] || printf ' restarted=1'
}

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

# find_numbers KIND: in NUMBERS, those that this host, or this container, has of it.
find_numbers() {
    NUMBERS=
    case $1 in
        cpu) NUMBERS=0 && return ;;
        cuda) set -- /dev/nvidia ;;
        npu) set -- /dev/davinci ;;
        *) return ;;
    esac
    NUMBERS=$(for node in "$1"[0-9]*; do
        [ ! -e "$node" ] || printf '%s\n' "${node#"$1"}"
    done | sort -n | tr '\n' ' ')
    NUMBERS=${NUMBERS% }
}

# The numbers that a run may have: its container may see some of the host's only. `devices` keeps what it sees, so that
# a holder need not ask.
find_own_numbers() {
    find_numbers "$kind"
    [ -e "$1/devices" ] || return 0
    { read -r visible; } <"$1/devices"
    found=
    for number in $NUMBERS; do
        case " $visible " in *" $number "*) found="$found $number" ;; esac
    done
    NUMBERS=${found# }
}

# note_visible RUN: the devices that its container sees, into `devices`. Asked once for all runs of a launch.
note_visible() {
    [ "$kind" != cpu ] && contained "$1" || return 0
    case $VISIBLE in
        "$CONTAINER $kind:"*) ;;
        *)
            nodes=$(timeout "$DOCKER_S" docker exec "$CONTAINER" sh -c 'cd /dev && ls' </dev/null) ||
                fail "cannot look for $kind devices in the container"
            prefix=davinci
            [ "$kind" = npu ] || prefix=nvidia
            VISIBLE="$CONTAINER $kind:$(printf '%s\n' "$nodes" | sed -n "s/^$prefix\([0-9][0-9]*\)\$/\1/p" | sort -n | tr '\n' ' ')"
            ;;
    esac
    put "$1/devices" "${VISIBLE#*:}" || fail "cannot write to $1"
}

# positions: the leased devices as the run must call them, comma-separated. CANN and CUDA number the devices that a
# process sees from 0, in the order of their nodes: in a container with davinci2 and davinci3, NPU 3 is device 1. This
# follows their documentation; it could not be tried on an NPU.
positions() {
    [ -e "$run/devices" ] || { printf %s "$devices" | tr ' ' ',' && return; }
    { read -r visible; } <"$run/devices"
    position=0 named=
    for number in $visible; do
        case " $devices " in *" $number "*) named=$named,$position ;; esac
        position=$((position + 1))
    done
    printf %s "${named#,}"
}

# check_wanted: enough of them, or the very ones, are there.
check_wanted() {
    here="this host has"
    [ ! -e "$1/devices" ] || here="the container has"
    case $wanted in
        =*)
            for number in $(printf %s "${wanted#=}" | tr ',' ' '); do
                case " $NUMBERS " in
                    *" $number "*) ;;
                    *) fail "there is no $kind device $number: $here ${NUMBERS:-none}" ;;
                esac
            done
            ;;
        *)
            # shellcheck disable=SC2086 # counting words is the point
            set -- $NUMBERS
            [ $# -ge "$wanted" ] || fail "the run needs $wanted $kind device(s), $here $#"
            ;;
    esac
}

# prepare_leases RUN
prepare_leases() {
    note_visible "$1"
    find_own_numbers "$1"
    check_wanted "$1"
    open_folder "$leases"
    open_folder "$leases/tickets"
    open_folder "$leases/devices"
    for number in $NUMBERS; do open_folder "$leases/devices/$kind.$number"; done
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
    rm -f "$run/foreign"
    set -- sh "$0" held "$run" "$leases" "$kind" "${devices# }" "$ticket"
    for number in $devices; do
        set -- flock -n -o -E "$CONFLICT" "$leases/devices/$kind.$number" "$@"
    done
    "$@"
}

find_free() {
    free='' LOCKED=''
    for number in $NUMBERS; do
        busy "$leases/devices/$kind.$number" || free="$free $number"
    done
}

# choose_devices: in $devices, the wanted ones of the free ones; fails if they are too few.
choose_devices() {
    devices=
    case $wanted in
        =*) choose_listed ;;
        *) choose_first "$wanted" ;;
    esac
}

choose_listed() {
    for number in $(printf %s "${wanted#=}" | tr ',' ' '); do
        case "$free " in *" $number "*) devices="$devices $number" ;; *) return 1 ;; esac
    done
}

choose_first() {
    needed=$1
    for number in $free; do
        [ "$needed" -gt 0 ] || break
        devices="$devices $number"
        needed=$((needed - 1))
    done
    [ "$needed" -eq 0 ]
}

# ---- foreign processes ---------------------------------------------------------------------------------------------
# A free device may still be in use by somebody who knows nothing of leases. Where the vendor's program is missing, fails
# or hangs, nobody can tell, and leases alone decide.

# find_foreign KIND: in FOREIGN, a line `<device> <pid>` for each process on a device.
find_foreign() {
    FOREIGN=
    case $1 in
        npu) FOREIGN=$(npu_processes) ;;
        cuda) FOREIGN=$(cuda_processes) ;;
    esac
    return 0
}

# The table of processes names NPU and chip. Which device number that is, the table of chips says: in its second column
# (`Phy-ID`, `Device`) where an NPU may have several, else it is the NPU's. Formats: 310P 22.0-25.5, 910B and A3 25.x.
npu_processes() {
    PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/local/Ascend/driver/tools
    LC_ALL=C timeout "$FOREIGN_S" npu-smi info 2>/dev/null | awk -F '|' '
        /Process id/ { processes = 1; next }
        { columns = split($2, word, " ") }
        word[1] !~ /^[0-9]+$/ { next }
        processes { print (word[1], word[2]) in number ? number[word[1], word[2]] : word[1], $3 + 0; next }
        npu == "" { npu = word[1]; next }
        { number[npu, word[1]] = columns > 1 ? word[2] : npu; npu = "" }'
}

# nvidia-smi names a GPU by its UUID; the driver tells which /dev/nvidia<n> that is.
cuda_processes() {
    set -- /proc/driver/nvidia/gpus/*/information
    [ -e "$1" ] || return 0
    timeout "$FOREIGN_S" nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv,noheader 2>/dev/null |
        awk -F '[:,]' '
            { gsub(/[ \t]/, "") }
            FILENAME != "-" && $1 == "GPUUUID" { uuid = $2 }
            FILENAME != "-" && $1 == "DeviceMinor" { minor[uuid] = $2 }
            FILENAME == "-" && $1 in minor { print minor[$1], $2 }' "$@" -
}

drop_foreign() {
    kept=
    for number in $free; do
        case $NEWLINE$FOREIGN in *"$NEWLINE$number "*) ;; *) kept="$kept $number" ;; esac
    done
    free=$kept
}

# Said once in the terminal, and in a file that status reads, until it is over.
tell_foreign() {
    said=$(printf '%s\n' "$FOREIGN" | tr ' \n' ':,')
    said=${said%,}
    before=
    { read -r before <"$run/foreign"; } 2>/dev/null
    [ "$said" = "$before" ] ||
        printf 'rlx: waiting: processes that are no runs of rlx use %s devices (device:pid): %s\n' "$kind" "$said"
    put "$run/foreign" "$said"
    sleep "$FOREIGN_NAP_S" 7<&- 8<&-
}

# claim PID: say on every device whose it is.
claim() {
    who=$(ident "$1") || return 0
    for number in $devices; do
        (umask 022 && put "$leases/devices/$kind.$number/$(id -u)" "$who $run")
    done
}

# Only what is over for good lets go: a claim that stays makes others look whether the run lives on.
unclaim() {
    for number in $devices; do rm -f "$leases/devices/$kind.$number/$(id -u)"; done
}

# ---- the holder ----------------------------------------------------------------------------------------------------

startable() {
    find_attempt "$1"
    [ ! -e "$STATE/started" ] && [ ! -e "$STATE/exit" ] && [ ! -e "$1/stop" ]
}

hold() {
    run=$1 leases=$2 kind=$3 wanted=$4
    # The terminal may go away with tmux, and a person who watches may press Ctrl-C: neither ends the run.
    trap '' HUP INT QUIT TSTP
    cd /
    exec 2>>"$run/holder.log" 7<"$run"
    flock -n 7 || fail "another holder has this run"
    startable "$run" || fail "this run was started or stopped before"
    take_ticket
    put "$run/holder" "$(ident $$)" || fail "cannot write to $run"
    printf '%s\n' "rlx: waiting for $kind device(s): ${wanted#=}"
    find_own_numbers "$run"
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
    if contained "$run"; then start_inside; else start_here; fi
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
    if contained "$run"; then await_inside; else await "$run"; fi
    run_alive "$run" || unclaim
    [ -z "$viewer" ] || kill "$viewer" 2>/dev/null
    return 0
}

start_here() {
    setsid sh "$0" run "$run" "$(positions)" </dev/null >/dev/null 7<&- 8<&- &
    supervisor=$!
    claim "$supervisor"
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
    start_leader "$2"
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
        setsid $reset sh "$0" ${WITHIN:+inside} lead "$run" </dev/null >>"$ATTEMPT/log" 2>&1 &
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
    if contained "$run"; then stop_contained; else stop_here; fi
}

stop_here() {
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
    within 1 no_zombies
    printf 'ended%s\nleft %s\nzombies%s\n' "$ENDED" "$LEFT" "$ZOMBIES"
    [ -z "$LEFT" ]
}

# A container whose first process reaps nothing keeps what was orphaned there as zombies, until it is restarted.
no_zombies() {
    ZOMBIES=
    for file in /proc/[0-9]*/stat; do
        { read -r stat <"$file"; } 2>/dev/null || continue
        pid=${file#/proc/} pid=${pid%/stat}
        # shellcheck disable=SC2086 # splitting into fields is the point
        set -- ${stat##*) }
        [ "$1 $2" = "Z 1" ] || continue
        case " $ENDED $GROUP " in *" $pid "* | *" $3 "* | *" $4 "*) ZOMBIES="$ZOMBIES $pid" ;; esac
    done
    [ -z "$ZOMBIES" ]
}

# A run that has not started needs no docker to be stopped: what starts after all finds the marker and ends.
stop_contained() {
    if alive "$run/holder"; then was_alive=1; fi
    if [ ! -e "$STATE/exit" ]; then put "$run/stop" "$(date +%s) $grace" || : >"$run/stop"; fi
    if [ ! -e "$STATE/started" ]; then
        end_holder
        [ -z "$was_alive" ] || record stop 143
    fi
    if [ -e "$STATE/started" ]; then stop_inside; else nothing_left; fi
}

stop_inside() {
    find_statuses "$CONTAINER"
    status_of "$CONTAINER"
    case $STATUS in
        running) ;;
        paused) fail "its container is paused: docker unpause $CONTAINER" ;;
        unknown) find_complaint && fail "docker cannot be asked: $COMPLAINT" ;;
        *) nothing_left && return ;;
    esac
    answer=$(enter stop "$grace")
    code=$?
    case $answer in ended*left*) printf '%s\n' "$answer" ;; *) fail "the container did not carry out the stop" ;; esac
    return "$code"
}

nothing_left() {
    rm -f "$run/env" "$STATE"/reserved.*
    printf 'ended%s\nleft\n' "$ENDED"
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
# First line: `now <epoch>`. For runs in containers, `container <id> <status>` and, from inside, `in <id> <key>=<value>…`.
# Then a line a run that exists: `run <id> <key>=<value>…`. Last, a line a file: `file <id>/<path> <bytes> <time>`.

report() {
    choose_runs "$@"
    printf 'now %s\n' "$(date +%s)"
    report_containers
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

# Two docker commands for all runs of a container, and the containers at the same time.
report_containers() {
    CONTAINERS='' INNERS=''
    for id in $RUNS; do
        contained "$root/runs/$id" || continue
        INNERS="$INNERS$CONTAINER $INNER$NEWLINE"
        case " $CONTAINERS " in *" $CONTAINER "*) ;; *) CONTAINERS="$CONTAINERS $CONTAINER" ;; esac
    done
    [ -n "$CONTAINERS" ] || return 0
    # shellcheck disable=SC2086 # one word a container
    find_statuses $CONTAINERS
    for CONTAINER in $CONTAINERS; do report_container & done
    wait
}

# A line at a time: then they do not mix.
report_container() {
    status_of "$CONTAINER"
    seen=
    [ "$STATUS" != running ] || seen=$(look_at_runs) || STATUS=unknown
    printf 'container %s %s\n' "$CONTAINER" "$STATUS"
    [ -z "$seen" ] || printf '%s\n' "$seen" | while read -r line; do printf '%s\n' "$line"; done
}

look_at_runs() {
    set -f
    IFS=$NEWLINE
    set --
    for entry in $INNERS; do
        case $entry in "$CONTAINER "*) INNER=${entry#* } && set -- "$@" "$INNER" ;; esac
    done
    unset IFS
    look_inside "$@"
}

# Processes are looked at before the files they write at their end: whoever is seen dead has written already.
report_run() {
    [ -d "$1" ] || return
    find_attempt "$1"
    line="run $2 attempt=${ATTEMPT##*/}" ahead=0
    add_life holder "$1/holder"
    if contained "$1"; then
        line="$line container=$CONTAINER"
    else
        add_life supervisor "$STATE/supervisor"
        add_life leader "$STATE/leader"
        count_marked "$2"
        line="$line members=$marked"
    fi
    { read -r ticket <"$1/ticket"; } 2>/dev/null && count_ahead "$ticket"
    here=$2/attempts/${ATTEMPT##*/} ended=
    FILES="$FILES $2/manifest.json $2/stop $here/log $here/metrics.jsonl $here/state/started"
    { read -r code who epoch _ <"$STATE/exit"; } 2>/dev/null && ended="exit=$code,$who,$epoch"
    { read -r foreign <"$1/foreign"; } 2>/dev/null && [ -e "$1/ticket" ] && ended="$ended foreign=$foreign"
    printf '%s\n' "$line ahead=$ahead $ended"
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
# `<id> <kind> <wanted>`. Prints `started <id>`, `existing <id>` or `warning <text>` lines, all of them at the end: the
# reader may be gone, and a broken pipe must not end a launch half way.

accept() {
    incoming=$1 root=$2 leases=$3 socket=$4
    # The order comes last in the archive: it is whole only if everything before it is.
    [ "$(tail -n 1 "$incoming/order" 2>/dev/null)" = end ] || fail "the shipment arrived incomplete"
    VISIBLE=
    while read -r id kind wanted; do
        [ "$id" = end ] || prepare_leases "$incoming/$id"
    done <"$incoming/order"
    results=
    case $(stat -f -c %T "$root" 2>/dev/null) in
        tmpfs | ramfs) results="warning $root lies in memory: its runs go when this machine restarts$NEWLINE" ;;
    esac
    while read -r id kind wanted; do
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
    set -- sh "$run/supervise.sh" hold "$run" "$leases" "$kind" "$wanted"
    for name in HOME USER LOGNAME PATH SHELL LANG LC_ALL LC_CTYPE TMPDIR TERM $DOCKER_NAMES; do
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

# ---- leases --------------------------------------------------------------------------------------------------------
# A line each: `device <kind>.<n> locked|free`, `claim <kind>.<n> live|dead <user> <time> <container> <run directory>`,
# `ticket <number> <kind> <user> <time> <container> <run directory>`, `foreign <kind>.<n> <pid>`.

leases() {
    for device in "$1/devices/"*.*; do
        [ -d "$device" ] || continue
        state=free
        if locked "$device"; then state=locked; fi
        printf 'device %s %s\n' "${device##*/}" "$state"
        for claim in "$device"/*; do [ ! -f "$claim" ] || tell_claim; done
    done
    for other in "$1/tickets/"*; do
        if [ -f "$other" ] && locked "$other"; then tell_ticket; fi
    done
    for kind in npu cuda; do
        find_foreign "$kind"
        [ -z "$FOREIGN" ] || printf '%s\n' "$FOREIGN" | sed "s/^/foreign $kind./"
    done
}

tell_claim() {
    { read -r _ _ _ claimed <"$claim"; } 2>/dev/null || return 0
    life=dead
    if alive "$claim" || { [ "$state" = free ] && [ -d "$claimed" ] && run_alive "$claimed"; }; then life=live; fi
    printf 'claim %s %s %s %s %s\n' "${device##*/}" "$life" "$(stat -c '%U %Y' "$claim")" "$(container_of "$claimed")" "$claimed"
}

# A ticket has two lines: the holder's process, and its run.
tell_ticket() {
    { read -r _ && read -r claimed; } 2>/dev/null <"$other" || return 0
    name=${other##*/}
    printf 'ticket %s %s %s %s %s\n' "${name%%.*}" "${name#*.}" "$(stat -c '%U %Y' "$other")" "$(container_of "$claimed")" "$claimed"
}

container_of() {
    CONTAINER=-
    contained "$1" 2>/dev/null
    printf %s "$CONTAINER"
}

ENDED='' LEFT='' GROUP='' WITHIN=''
if [ "${1:-}" = inside ]; then
    # The host's user is to read what the container's user writes; 0700 on the run directory keeps others out.
    WITHIN=1
    umask 022
    shift
fi
case ${1:-} in
    # The script itself may come on stdin, so no command may read from there.
    accept | hold | held | run | lead | stop | await | look | report | manifests | leases) "$@" </dev/null ;;
    *) fail "usage: supervise.sh accept|hold|run|stop|report …" ;;
esac
