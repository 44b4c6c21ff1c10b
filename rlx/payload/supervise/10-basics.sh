# Starts a run, keeps watch over it, records how it ended, and tells what it knows. POSIX sh on Linux. It is written in
# parts, and travels as one file, supervise.sh. 05-layout.sh comes first: it names the files of a run.
#
#   accept OWN INCOMING ROOT LEASES SOCKET [CONTAINER RUNS-INSIDE]
#                                        put shipped runs in their place and start their holders, in order
#   retry OWN INCOMING ROOT LEASES SOCKET [CONTAINER RUNS-INSIDE]
#                                        begin a further attempt of a run that is over, once
#   checkpoints RUN                      the files below its checkpoints
#   hold RUN LEASES KIND WANTED [CONTAINER RUN-INSIDE]
#                                        wait in ticket order for the devices, start the supervisor, show the log
#   held RUN LEASES KIND DEVICES TICKET CONTAINER RUN-INSIDE
#                                        the second half of hold, started while flock holds the devices
#   job RUN KIND WANTED                  the script of a job: supervise launch.sh on the devices that it has
#   node RUN KIND WANTED                 the same on a further node of that job, in the directory of that node
#   run RUN DEVICES KIND NUMBERS         supervise launch.sh; at most once in the life of a run. DEVICES as the run calls
#                                        them, NUMBERS as their nodes are called
#   follow RUN                           in place of its supervisor, the jobs that it has submitted to Ray
#   sample RUN KIND NUMBERS              tell what the devices do, as long as the supervisor lives
#   lead RUN                             leader of the run's process group: runs launch.sh, records its exit
#   stop RUN GRACE [CONTAINER [abandon]] end everything that belongs to the run, in no other container; check that it is gone
#   report ROOT [ID…] [-- ID=CONTAINER…] facts about all runs, or about these; writes nothing, enters no other container
#   manifests ROOT                       the manifests of all runs and what was removed, as far as they are not KNOWN
#   withdraw ROOT BLOCK RUN-ID…          never start these runs here, if none of their block has begun to
#   leases LEASES                        who holds the devices of this host, who waits, and what is foreign to rlx
#   jobs SCHEDULER ARGUMENT…             who has the nodes of a batch scheduler, and who waits for them
#   facts ROOT ID…                       what batch schedulers say of these runs
#   inside guard RUN DEVICES             the first process of a container that a job made: ends with its stdin
#   inside run|stop|await|look RUN…      the part of these that runs in the container of a run
#
# WANTED is a number of devices, or a list of certain ones: `=0,2,3`. RUN is a run directory.
#
# A process is known by pid, start tick, boot id, the name of its node and its process table, since pids are reused and
# folders shared between machines: a node knows nothing of the processes of another, not even that they are dead. An equal
# boot id and process table is the same machine, whatever it is called; containers share a boot id and have tables of
# their own. What belongs to a run is found by RLX_RUN in its environment, which also finds what left the process group.
# Waits go by /proc/uptime: clocks are set.
# Functions that run often answer in a variable instead of on stdout: a $(…) would cost a process each time.
set -u
umask 077

read -r BOOT </proc/sys/kernel/random/boot_id
read -r NODE </proc/sys/kernel/hostname
# How this user's docker finds its daemon.
DOCKER_NAMES='DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG DOCKER_CERT_PATH DOCKER_TLS_VERIFY XDG_RUNTIME_DIR'
CONFLICT=99      # flock's exit code when another process has the device
HEARTBEAT_S=5
KILL_S=5         # how long a process may take to vanish after SIGKILL
SWEEP_GRACE_S=10 # what outlives the leader gets this long after SIGTERM
HOLDER_START_S=20
CLAIM_S=20       # how long a supervisor waits for its holder to pass the devices on
SIGN_S=5         # how long the process that starts a run takes to sign
DRAIN_S=5        # how long the last lines of a run may take into its log
MASK_FILES_S=60
MASK_STARTS=20
TMUX_RETRY_S=3
DOCKER_S=20  # a docker that hangs must not hang the caller
REPORT_DOCKER_S=7 # twice that is less than rlx waits for a report, which is about other runs, too
FOREIGN_S=20 # nor an npu-smi
REPORT_FOREIGN_S=8 # twice that, too
FOREIGN_NAP_S=10
NEWLINE='
'

# ---- processes -----------------------------------------------------------------------------------------------------

# Not 1: with that, stop says that something is left.
fail() {
    printf '%s\n' "$*" >&2
    exit 2
}

# A small busybox has none; then the caller waits no longer than for any answer.
command -v timeout >/dev/null || timeout() { shift && "$@"; }

nap() { sleep "$1" 2>/dev/null || sleep 1; }

clock() { IFS=. read -r NOW _ </proc/uptime; } # whole seconds since boot, in NOW

# start_tick PID: the tick PID started at, in TICK; fails when it is gone or a zombie.
start_tick() {
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    # shellcheck disable=SC2086 # splitting into fields is the point
    set -- ${stat##*) }
    case ${1:-Z} in Z | X) return 1 ;; *) TICK=${20} ;; esac
}

ident() { start_tick "$1" && printf '%s\n' "$1 $TICK $BOOT $NODE $(process_table)"; }

process_table() { readlink /proc/self/ns/pid 2>/dev/null; } # the name of its namespace; empty where there is none

# alive FILE: the very process that FILE names still runs. PID is set. A torn or empty file names no process. 2: it is
# another node's, so that it is unknown here.
alive() {
    [ -f "$1" ] && { read -r PID tick boot written_on table _ <"$1"; } 2>/dev/null || return 1
    case $PID in '' | *[!0-9]*) return 1 ;; esac
    # A claim names its run there, and the process table in its third line.
    case $table in /*) { read -r _ && read -r _ && read -r table; } <"$1" || table='' ;; esac
    ! another "$boot" "$written_on" "$table" || return 2
    [ "$boot" = "$BOOT" ] && start_tick "$PID" && [ "$TICK" = "$tick" ]
}

# expand PATH: in EXPANDED, with this host's home for a tilde.
expand() {
    EXPANDED=$1
    # shellcheck disable=SC2088 # the tilde is text here, and becomes this host's home
    case $1 in '~' | '~/'*) EXPANDED=${HOME:?}${1#'~'} ;; esac
}

gone() { ! alive "$1"; }

# another BOOT NAME TABLE: a node that is not this one. Records of before rlx noted names have none, or a path; those of
# before it noted process tables go by the name alone. What runs inside a container is asked by the host that knows its id.
another() {
    case $2 in '' | /* | "$NODE") return 1 ;; esac
    [ -z "$WITHIN" ] || return 1
    [ "$1" != "$BOOT" ] || [ -z "$3" ] || [ "$3" != "$(process_table)" ]
}

# elsewhere RUN: its holder is another node's, OTHER, and so is all else of it.
elsewhere() {
    [ -f "$1/$HOLDER_FILE" ] && { read -r _ _ boot OTHER table _ <"$1/$HOLDER_FILE"; } 2>/dev/null &&
        another "$boot" "$OTHER" "$table" || return 1
    case $OTHER in *[!A-Za-z0-9._-]*) OTHER='?' ;; esac
}

# within SECONDS CONDITION…: wait until the condition holds; fails if it does not in time.
within() {
    clock
    until_s=$((NOW + $1))
    shift
    until "$@"; do
        clock
        [ "$NOW" -lt "$until_s" ] || return 1
        nap 0.02
    done
}

# members ID: the pids of all processes that carry the run's mark.
members() {
    grep -lzxF "RLX_RUN=$1" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ pid _; do
        printf '%s\n' "$pid"
    done
}

# ---- files of a run ------------------------------------------------------------------------------------------------
# Root of a container can put anything in their place: only regular files are read, since a FIFO would hang the caller.

# put FILE TEXT: the file has the old text or the new one, never half of it. No link in its place is followed.
put() {
    set -C
    { printf '%s\n' "$2" >"$1.tmp.$$"; } 2>/dev/null
    wrote=$?
    set +C
    { [ "$wrote" -eq 0 ] && mv -f "$1.tmp.$$" "$1"; } 2>/dev/null || { rm -f "$1.tmp.$$" && false; }
}

# The newest attempt of a run, in ATTEMPT and STATE.
find_attempt() {
    newest=1
    while [ -d "$1/$ATTEMPTS_DIR/$((newest + 1))" ]; do newest=$((newest + 1)); done
    ATTEMPT=$1/$ATTEMPTS_DIR/$newest
    STATE=$ATTEMPT/$STATE_DIR
}

# record WHO CODE: how the run ended. The space was reserved before the disk could fill, it is overwritten in place
# and published by link(2): the first writer wins, and half a record is never read.
record() {
    [ -e "$STATE/$RESERVED_FILE.$1" ] || return 0
    printf '%-62s\n' "$2 $1 $(date +%s) $(cut -d' ' -f1 /proc/uptime)" 1<>"$STATE/$RESERVED_FILE.$1"
    ln "$STATE/$RESERVED_FILE.$1" "$STATE/$EXIT_FILE" 2>/dev/null
    rm -f "$STATE/$RESERVED_FILE.$1"
}

# run_alive RUN [LISTED]: in a subshell, because callers ask about other runs than their own.
run_alive() (
    # shellcheck disable=SC2030 # that is what the subshell is for
    LISTED=${2-any}
    if contained "$1"; then contained_alive; else alive_here "$1"; fi
)

alive_here() {
    find_attempt "$1"
    alive "$STATE/$SUPERVISOR_FILE" || alive "$STATE/$LEADER_FILE" || [ -n "$(members "${1##*/}")" ] || jobs_live "$1"
}

# ---- ending processes ----------------------------------------------------------------------------------------------

# end_processes RUN GRACE: TERM once to each process of the run, KILL after GRACE seconds. ENDED lists the pids that were
# told to end, LEFT those that did not; fails if there are any.
end_processes() {
    clock
    limit=$((NOW + $2))
    if alive "$STATE/$LEADER_FILE"; then GROUP=$PID; fi
    while LEFT=$(members "${1##*/}" | tr '\n' ' ') && [ -n "$LEFT" ]; do
        clock
        [ "$NOW" -lt $((limit + KILL_S)) ] || return 1
        for pid in $LEFT; do end_process "$pid"; done
        nap 0.1
    done
    # A process that cleared its environment carries no mark, but may still be in the leader's group.
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
    end_sampler
    rm -f "$1/$ENV_FILE"
    # What follows a job to its end records that.
    ! jobs_open || return 0
    rm -f "$STATE/$RESERVED_FILE".*
    [ -f "$STATE/$RAY_TMP_FILE" ] && { read -r ray_tmp <"$STATE/$RAY_TMP_FILE"; } 2>/dev/null || return 0
    case $ray_tmp in /tmp/rlx-??????) rm -rf "$ray_tmp" ;; esac
}
