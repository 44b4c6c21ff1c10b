# ---- runs in a container -------------------------------------------------------------------------------------------
# Their run directory has a file `container`: the full id, and the run directory as the container sees it. The holder is
# a process of the host; supervisor and leader are the container's. Their pids mean something only there, so the host
# asks inside, with the copy of this script in the run directory.
#
# Root of the container can write all of the run directory. The host's user runs nothing from there, and a holder knows
# its container from its arguments.

# contained RUN: the processes of the run are in a container, and this is its host. CONTAINER and INNER are set, and
# MAY_ENTER, unless only its own files show that it is this one.
contained() {
    [ -z "$WITHIN" ] && [ -f "$1/$CONTAINER_FILE" ] && { read -r CONTAINER && read -r INNER; } <"$1/$CONTAINER_FILE" || return 1
    # An id, and nothing that docker would take for an option.
    case $CONTAINER in '' | *[!0-9a-f]*) CONTAINER=none ;; esac
    # Root of the container could have written the id of another one: the remote caller knows which one it is.
    # shellcheck disable=SC2031 # set by who asks
    case ${LISTED-any} in any | *" ${1##*/}=$CONTAINER "*) MAY_ENTER=1 ;; *) MAY_ENTER='' ;; esac
}

# enter VERB…: as long as it takes.
enter() {
    verb=$1
    shift
    docker exec "$CONTAINER" sh "$INNER/$SUPERVISE_FILE" inside "$verb" "$INNER" "$@" </dev/null
}

look_inside() {
    timeout "$DOCKER_S" docker exec "$CONTAINER" sh "$INNER/$SUPERVISE_FILE" inside look "$@" </dev/null 2>/dev/null
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

# Where this is unknown, the run counts as alive: its devices must not go to another one.
contained_alive() {
    find_statuses "$CONTAINER"
    status_of "$CONTAINER"
    case $STATUS in
        running) [ -n "$MAY_ENTER" ] && seen=$(look_inside "$INNER") || return 0 ;;
        paused | unknown) return 0 ;;
        *) return 1 ;;
    esac
    case $seen in *=live* | *members=[1-9]*) ;; *) return 1 ;; esac
}

# host_pid FILE: in PID, the pid on this host of the process that FILE names as its container sees it.
host_pid() {
    [ -f "$1" ] && { read -r inner tick _ <"$1"; } 2>/dev/null || return 1
    # shellcheck disable=SC2013 # a word is a file
    for status in $(grep -lE "^NSpid:.*[[:space:]]$inner\$" /proc/[0-9]*/status 2>/dev/null); do
        PID=${status#/proc/} PID=${PID%/status}
        start_tick "$PID" && [ "$TICK" = "$tick" ] && return 0
    done
    return 1
}

# The docker command only observes: the supervisor outlives it. Its session of its own keeps signals of the terminal
# away from it.
start_inside() {
    setsid docker exec "$CONTAINER" sh "$INNER/$SUPERVISE_FILE" inside run "$INNER" "$(positions)" \
        "$kind" "$devices" </dev/null >/dev/null 7<&- 8<&- &
    supervisor=$!
}

# However long docker takes: until then nothing of the run uses the devices, and the holder has their locks.
pass_claim_inside() {
    until named_or_over; do nap 0.1; done
    [ -s "$STATE/$SUPERVISOR_FILE" ] || return 0
    # Where the kernel hides the container's processes from this user (hidepid), the claim stays the holder's.
    host_pid "$STATE/$SUPERVISOR_FILE" || PID=$$
    pass_claim "$PID"
}

named_or_over() { [ -s "$STATE/$SUPERVISOR_FILE" ] || ! start_tick "$supervisor"; }

# The docker command may have been killed, or its daemon restarted: that says nothing about the run.
await_inside() {
    until enter await 2>/dev/null; do
        [ -d "$run" ] || return 0
        find_statuses "$CONTAINER"
        status_of "$CONTAINER"
        case $STATUS in running | paused | unknown) sleep 2 ;; *) break ;; esac
    done
    # The process that makes this folder decides whether the run has started; from here on it cannot any more.
    if mkdir "$STATE/$STARTED_DIR" 2>/dev/null; then
        printf 'rlx: the container could not be entered: %s\n' "$(last_complaint)" >>"$ATTEMPT/$LOG_FILE"
        record supervisor 125
    fi
    rm -f "$run/$ENV_FILE" "$STATE/$RESERVED_FILE".*
}

# Words only: a process that can write the run directory can have them appended to another file of this user.
last_complaint() { tail -n 1 "$run/$HOLDER_LOG_FILE" | LC_ALL=C tr -cd 'A-Za-z0-9 .,:/_-'; }

# Until nothing of the run is left.
await() {
    run=$1
    find_attempt "$run"
    # The maker of that folder signs a moment later. Until then its run looks dead, and must not be cleaned away.
    [ ! -e "$STATE/$STARTED_DIR" ] || within "$SIGN_S" signed
    # A sleep outlives a holder that is killed, and must not keep its lock.
    while alive "$STATE/$SUPERVISOR_FILE" || alive "$STATE/$LEADER_FILE"; do sleep 1 7<&- 8<&-; done
    if [ ! -e "$STATE/$EXIT_FILE" ] && jobs_open; then
        code=137
        finish_jobs 7<&- 8<&-
        record supervisor "$code"
    fi
    [ ! -e "$STATE/$STARTED_DIR" ] || clean_up "$run" "$SWEEP_GRACE_S"
}

signed() { [ -e "$STATE/$SUPERVISOR_FILE" ] || [ -e "$STATE/$EXIT_FILE" ]; }

# look RUN…: inside, a line a run: `in <id> <key>=<value>…`.
look() {
    RUNS=
    for run in "$@"; do RUNS="$RUNS ${run##*/}"; done
    MARKED=$(tell_marks | tr '\0' '\n')
    for run in "$@"; do
        find_attempt "$run"
        line="in ${run##*/}"
        add_life supervisor "$STATE/$SUPERVISOR_FILE"
        add_life leader "$STATE/$LEADER_FILE"
        count_marked "${run##*/}"
        printf '%s\n' "$line members=$marked$(restarted)"
    done
}

count_marked() {
    marked=0
    for mark in $MARKED; do
        [ "$mark" != "RLX_RUN=$1" ] || marked=$((marked + 1))
    done
}

# The container started after the run did.
restarted() {
    [ -f "$STATE/$SUPERVISOR_FILE" ] && { read -r _ tick boot _ <"$STATE/$SUPERVISOR_FILE"; } 2>/dev/null || return 0
    if [ "$boot" = "$BOOT" ] && start_tick 1 && [ "$TICK" -gt "$tick" ]; then printf ' restarted=1'; fi
}
