# ---- Ray jobs ------------------------------------------------------------------------------------------------------
# A script of the user's may hand its training to a Ray (`ray job submit`): then its processes are those of a cluster, which
# may be another's and on another machine. payload/ray_jobs.py follows such jobs by the REST API of their cluster. The
# run lives as long as one of them may, so it keeps its devices, and it ends as they do. The leader follows them; where that
# was killed, the supervisor, and then the holder; where all were, any question about the run is one to the cluster.

SUBMITTED_S=2  # how soon a job is followed
STOP_JOBS_S=20 # how long Ray may take to end them
AGAIN_S=10     # after a follower that failed
PYTHON=''

# follows_jobs RUN: it was sent what that needs.
follows_jobs() { [ -f "$1/$RAY_JOBS_PROGRAM" ]; }

# jobs_open: of the attempt that find_attempt has found, a job is not known to have ended. In RAY_CODE, how all did.
jobs_open() {
    RAY_CODE='' word=''
    [ ! -f "$STATE/$RAY_STATE_FILE" ] || { read -r word RAY_CODE _ <"$STATE/$RAY_STATE_FILE"; } 2>/dev/null
    case $word in
        over) return 1 ;;
        '') [ -s "$ATTEMPT/$RAY_JOBS_FILE" ] ;;
    esac
}

# find_python: in PYTHON. Without the run's mark, so that it can be asked while the processes of the run are ended.
find_python() {
    [ -z "$PYTHON" ] || return 0
    for PYTHON in python3 python; do
        RLX_RUN='' "$PYTHON" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null && return
    done
    PYTHON=''
    return 1
}

# jobs_program WORD…: by a Python of the host, or else by that of the Ray which submitted; without the mark, too.
jobs_program() {
    find_python || PYTHON=$(sed -n 's|.*"ray": "\([^"]*\)/ray".*|\1/python3|p' "$ATTEMPT/$RAY_JOBS_FILE" | tail -n 1)
    PYTHON=${PYTHON:-python3}
    RLX_RUN='' "$PYTHON" -I -S "$run/$RAY_JOBS_PROGRAM" "$@"
} 2>/dev/null

# launch_followed: launch.sh, and beside it what follows the jobs that it submits; in code, how both ended.
launch_followed() {
    code=0
    trap : HUP INT QUIT TERM
    follows_jobs "$run" || { (launch) || code=$? && return; }
    follow_once_submitted &
    follower=$!
    (launch) || code=$?
    note_script
    # What no wrapper saw, Ray has told the log, or the Ray of the run can tell.
    if [ ! -s "$ATTEMPT/$RAY_JOBS_FILE" ] &&
        { [ -e "$RLX_RAY_TMP/contained.json" ] || grep -qs 'Job submission server address' "$ATTEMPT/$LOG_FILE"; }; then
        put "$STATE/$RAY_STATE_FILE" 'open -'
    fi
    [ -s "$ATTEMPT/$RAY_JOBS_FILE" ] || kill -s KILL "$follower" 2>/dev/null
    # A batch scheduler ends the run, and its jobs with it.
    [ ! -e "$STATE/$CUT_FILE" ] || ! jobs_open || jobs_program stop "$run" "$ATTEMPT" 0 >/dev/null
    follow_jobs
}

follow_once_submitted() {
    trap - TERM
    until [ -s "$ATTEMPT/$RAY_JOBS_FILE" ]; do sleep "$SUBMITTED_S" >/dev/null 2>&1; done
    jobs_program follow "$run" "$ATTEMPT"
}

note_script() { put "$STATE/$SCRIPT_FILE" "$code $(date +%s)"; }

# follow_jobs [no-log]: until they have ended; in code, how the run did.
follow_jobs() {
    while jobs_open; do
        jobs_program follow "$run" "$ATTEMPT" "$@" && continue
        [ "$PYTHON" = "${told-}" ] || echo "rlx: $PYTHON does not follow the Ray jobs of this run; it is tried again"
        told=$PYTHON
        nap "$AGAIN_S"
    done
    case $RAY_CODE in '' | *[!0-9]*) return ;; esac
    code=$RAY_CODE
    # launch.sh has ended before all of the log was there.
    RLX_ATTEMPT_DIR=$ATTEMPT bash "$run/$LAUNCH_FILE" printed
}

# finish_jobs: the same in place of a leader that was killed. What is secret in their logs is not known any more.
finish_jobs() {
    { [ ! -e "$STATE/$EXIT_FILE" ] && jobs_open && follows_jobs "$run"; } || return 0
    [ -e "$STATE/$SCRIPT_FILE" ] || note_script
    if [ -e "$run/$MASK_FILE" ]; then follow_jobs no-log; else follow_jobs >>"$ATTEMPT/$LOG_FILE"; fi
}

# resume_following: of the runs beside $run, those whose jobs no process follows any more: all of rlx was killed, or the machine
# restarted. The devices that they have may be what $run waits for.
resume_following() (
    for other in "${run%/*}"/*/"$LATEST_LINK/$RAY_JOBS_FILE"; do
        other=${other%"/$LATEST_LINK/"*}
        find_attempt "$other"
        if [ -e "$STATE/$STARTED_DIR" ] && [ ! -e "$STATE/$EXIT_FILE" ] && jobs_open && follows_jobs "$other" &&
            own "$other" && ! contained "$other" && ! is_job "$other" && ! elsewhere "$other" && ! followed "$other"; then
            setsid sh "$other/$SUPERVISE_FILE" follow "$other" </dev/null >/dev/null 2>&1 6<&- 7<&- 8<&- &
        fi
    done
)

followed() { alive "$1/$HOLDER_FILE" || alive "$STATE/$SUPERVISOR_FILE" || alive "$STATE/$LEADER_FILE"; }

# follow RUN: in place of its supervisor.
follow() {
    run=$1 code=137
    trap '' HUP INT QUIT
    cd /
    find_attempt "$run"
    put "$STATE/$SUPERVISOR_FILE" "$(ident $$)" || exit 74
    finish_jobs
    record supervisor "$code"
    clean_up "$run" 0
}

# stop_jobs: prints `submitted ended|left <id> <address> [<why>]` lines.
stop_jobs() { ! { jobs_open && follows_jobs "$run"; } || jobs_program stop "$run" "$ATTEMPT" "$STOP_JOBS_S"; }

# jobs_live RUN: their cluster does not say that they have ended.
jobs_live() {
    run=$1
    jobs_open && follows_jobs "$run" || return 1
    case $(jobs_program look "$run") in *' over '*) return 1 ;; esac
}
