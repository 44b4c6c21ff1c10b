# ---- stop ----------------------------------------------------------------------------------------------------------

stop() {
    expand "$1"
    run=$EXPANDED
    grace=$2 was_alive='' abandon=${4-}
    [ $# -lt 3 ] || LISTED=" ${run##*/}=$3 "
    [ -d "$run" ] || { stop_removed && return; }
    ! elsewhere "$run" || [ -n "$(members "${run##*/}")" ] || fail "not known here: it was started on $OTHER, and this is $NODE"
    find_attempt "$run"
    if is_job "$run"; then stop_job; elif contained "$run"; then stop_contained; else stop_here; fi
}

# Its files are gone, so nothing says what became of it. The mark finds what is left.
stop_removed() {
    [ -n "$(members "${run##*/}")" ] || fail "there is no $run"
    find_attempt "$run"
    end_processes "$run" "$grace"
    printf 'ended%s\nleft %s\n' "$ENDED" "$LEFT"
    [ -z "$LEFT" ] || exit 1
}

stop_here() {
    if alive "$run/$HOLDER_FILE" || alive "$STATE/$SUPERVISOR_FILE" || alive "$STATE/$LEADER_FILE"; then was_alive=1; fi
    # The marker comes first: what has not started yet then does not start any more.
    if [ ! -e "$STATE/$EXIT_FILE" ]; then put "$run/$STOP_FILE" "$(date +%s) $grace" || : >"$run/$STOP_FILE"; fi
    [ -e "$STATE/$STARTED_DIR" ] || end_holder
    jobs=''
    if jobs_open; then was_alive=1 jobs=$(stop_jobs); fi
    end_processes "$run" "$grace"
    # Their cluster may have ended just now.
    case $jobs in *"submitted left "*) jobs=$(jobs_program stop "$run" "$ATTEMPT" 0) ;; esac
    case $jobs in
        *"submitted left "*)
            if [ -z "$abandon" ]; then tell_left_jobs && return 1; fi
            put "$STATE/$RAY_STATE_FILE" 'over 143'
            ;;
    esac
    code=143
    finish_jobs
    # The supervisor ends by itself once nothing is left for it to watch.
    if ! within "$KILL_S" gone "$STATE/$SUPERVISOR_FILE"; then
        kill -s KILL "$PID"
        ENDED="$ENDED $PID"
        end_processes "$run" 0
    fi
    [ -z "$was_alive" ] || record stop 143
    clean_up "$run" 0
    [ -z "$WITHIN" ] || within 1 no_zombies
    find_strays
    tell_stopped
    [ -z "$LEFT" ]
}

tell_stopped() {
    printf 'ended%s\nleft %s\nzombies%s\nstrays%s\n' "$ENDED" "$LEFT" "$ZOMBIES" "$STRAYS"
    [ -z "$jobs" ] || printf '%s\n' "$jobs"
}

# tell_left_jobs: while a job runs, the run does, with its devices. The supervisor or the holder stops it once that can be.
tell_left_jobs() {
    STRAYS=''
    tell_stopped
}

# find_strays: in STRAYS, the processes that still write to files of the attempt. A process that left the group of the leader and
# cleared its environment has no mark; by an open file alone it may be another user's, so it is reported and not ended.
# `ls` shows in the rights of the links in /proc/<pid>/fd how each file was opened.
find_strays() {
    # shellcheck disable=SC2012 # no name is read, only rights, and what a link begins with
    STRAYS=$(at=$(cd "$ATTEMPT" 2>/dev/null && pwd -P) && LC_ALL=C ls -l /proc/[0-9]*/fd 2>/dev/null | AT=" -> $at/" awk '
        /^\/proc\// { split($0, part, "/"); pid = part[3] }
        substr($0, 3, 1) == "w" && index($0, ENVIRON["AT"]) && !(pid in told) { told[pid] = 1; printf " %s", pid }')
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
    asked=
    if alive "$run/$HOLDER_FILE"; then was_alive=1; fi
    if [ ! -e "$STATE/$EXIT_FILE" ] && [ ! -e "$run/$STOP_FILE" ]; then
        put "$run/$STOP_FILE" "$(date +%s) $grace" || : >"$run/$STOP_FILE"
        asked=1
    fi
    if [ ! -e "$STATE/$STARTED_DIR" ]; then
        end_holder
        [ -z "$was_alive" ] || record stop 143
    fi
    if [ -e "$STATE/$STARTED_DIR" ]; then stop_inside; else nothing_left; fi
}

UNLISTED='RLX411 its files name a container that is not known to be its own: nothing was asked or ended in there'

stop_inside() {
    find_statuses "$CONTAINER"
    status_of "$CONTAINER"
    case $STATUS in
        running) [ -n "$MAY_ENTER" ] || { unmark && fail "$UNLISTED"; } ;;
        paused) unmark && fail "its container is paused: docker unpause $CONTAINER" ;;
        unknown) unmark && find_complaint && fail "docker cannot be asked: $COMPLAINT" ;;
        *) nothing_left && return ;;
    esac
    answer=$(enter stop "$grace" none "$abandon")
    code=$?
    case $answer in ended*left*) printf '%s\n' "$answer" ;; *) fail "the container did not carry out the stop" ;; esac
    return "$code"
}

# A stop that did not happen must not pass for the reason of an end that comes later.
unmark() { [ -z "$asked" ] || rm -f "$run/$STOP_FILE"; }

nothing_left() {
    rm -f "$run/$ENV_FILE" "$STATE/$RESERVED_FILE".*
    printf 'ended%s\nleft\n' "$ENDED"
}

# A holder that waits is the leader of its own process group: tmux and setsid both see to that.
end_holder() {
    alive "$run/$HOLDER_FILE" || return 0
    ENDED="$ENDED $PID"
    kill -s TERM -- "-$PID" 2>/dev/null
    within "$KILL_S" gone "$run/$HOLDER_FILE" || kill -s KILL -- "-$PID" 2>/dev/null
    rm -f "$run/$TICKET_FILE"
}
