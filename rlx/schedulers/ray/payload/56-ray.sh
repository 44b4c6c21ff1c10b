# ---- Ray -----------------------------------------------------------------------------------------------------------
# What is asked of it: `address=URL` of the dashboard; `reserves=GPU 2`, what Ray reserves for the job's own process;
# `joins=yes` of a trainer that asks Ray itself, and `awaits=GPU 2`, what must be free before that begins.
#
# A job is called as its run is, a further attempt with its number, and is known by its metadata, which name the run
# directory. Ray ends a job by SIGTERM to all of its processes and SIGKILL 3 s later, so `stop` ends the run itself, and
# asks Ray for what is left. A Ray that ends kills the job's own process alone: the supervisor is of another session, sees
# that, and ends the run.

RAY_S=20
REPORT_RAY_S=5 # a question of the report, which is about other runs, too; all together three times that
RAY_END_S=20   # how long Ray takes to see that a job is over
RAY_POLL_S=1
RAY_FILE=ray   # in the state: where the job's Ray is

program ray_api.py

# ask_ray VERB WORD…: in ANSWER, what the program says; where it fails, why.
ask_ray() {
    find_python || { ANSWER="Ray cannot be asked: there is no Python 3.8 or later on the PATH of this host" && return 1; }
    ANSWER=$(RAY_API_S=$RAY_S ray_api "$@" 2>&1 </dev/null)
}

# find_request RUN: in RAY, RESERVES, AWAITS and JOINS, what is asked of Ray.
find_request() {
    RAY='' RESERVES='' AWAITS='' JOINS=''
    while IFS='=' read -r key value; do
        case $key in address) RAY=$value ;; reserves) RESERVES=$value ;; awaits) AWAITS=$value ;; joins) JOINS=$value ;; esac
    done <<REQUEST
$(request_of "$1")
REQUEST
}

# name_ray_job RUN: in NAME, what the job of its newest attempt is called; find_attempt has found that.
name_ray_job() {
    name_job "${1##*/}"
    case $NAME in *@*) NAME=${NAME%@*}.${NAME##*@} ;; esac
}

# ---- submit

ray_find() {
    find_request "$run"
    name_ray_job "$run"
    ask_ray find "$RAY" "$NAME" "$run" || take_back "$ANSWER"
    JOB=$ANSWER
}

ray_submit() {
    find_request "$run"
    name_ray_job "$run"
    set -- "$RAY" "$NAME" "$run" "$kind" "$wanted"
    while read -r line; do set -- "$@" "$line"; done <<REQUEST
$(request_of "$run")
REQUEST
    ask_ray submit "$@" || take_back "$ANSWER"
    JOB=$ANSWER
}

# ---- the job

# ray_job: the job's own process. One of an attempt before this waited until it was stopped, and is not to begin now.
ray_job() {
    find_attempt "$run"
    name_ray_job "$run"
    [ "${RLX_RAY_JOB_NAME-}" = "$NAME" ] || fail "this job is of another attempt of ${run##*/}"
    unset RLX_RAY_JOB_NAME
    printf 'rlx: the log of this run is %s on %s\n' "$ATTEMPT/$LOG_FILE" "$NODE"
    trap : HUP INT TERM
    setsid sh "$run/$SUPERVISE_FILE" node "$run" "$kind" "$wanted" $$ </dev/null >>"$run/$HOLDER_LOG_FILE" 2>&1 &
    supervisor=$!
    code=
    until [ -n "$code" ] && has_ended "$supervisor"; do
        wait "$supervisor"
        code=$?
    done
    exit "$code"
}

# ray_node RUN KIND WANTED PID: the supervisor; PID is the job's own process, which Ray has started.
ray_node() {
    run=$1 kind=$2 wanted=$3
    cd /
    start_tick "$4" || exit 75
    job_pid=$4 job_tick=$TICK
    find_attempt "$run"
    find_request "$run"
    put "$STATE/$RAY_FILE" "${RAY_ADDRESS-}"
    { await_turn && startable "$run"; } || { forget_secrets "$run" && exit 143; }
    find_reserved
    [ -z "$JOINS" ] || export RLX_RAY_JOB="$job_pid"
    put "$STATE/$CLAIMED_FILE" "job $NAME"
    find_cluster
    watch_job $$ &
    watch=$!
    run "$run" "$GRANTED" "$kind" "$NUMBERS"
    kill "$watch" 2>/dev/null
    exit "$code"
}

job_is_there() { start_tick "$job_pid" && [ "$TICK" = "$job_tick" ]; }

# await_turn: until what the run is to take is free. One run after the other counts that, and has it before the next one.
await_turn() {
    name_ray_job "$run"
    [ -n "$AWAITS" ] || return 0
    find_python || { echo "rlx: there is no Python 3.8 or later on the PATH of this job" && return 1; }
    lock=/tmp/rlx-ray-$(id -u)-$(printf %s "$RAY" | tr -c 'A-Za-z0-9.' -)
    # shellcheck disable=SC2086 # what, and how many
    ray_api await "$RAY" "$run" "$job_pid" "$lock" $AWAITS
}

# find_reserved: in GRANTED, the devices as the run is to call them, empty where they are those that it sees anyway; in
# NUMBERS, as their node calls them. In PROBLEM, what is wrong with them.
find_reserved() {
    GRANTED='' NUMBERS='' PROBLEM=''
    [ "$kind" != cpu ] || [ -n "$JOINS" ] || GRANTED=0
    [ -n "$RESERVES" ] || return 0
    own=${CUDA_VISIBLE_DEVICES-}
    [ "$kind" != npu ] || own=${ASCEND_RT_VISIBLE_DEVICES-}
    NUMBERS=$(printf %s "$own" | tr , ' ')
    count=$(printf %s "$own" | tr , '\n' | grep -c .)
    [ "$count" -eq "$wanted" ] || PROBLEM="the run needs $wanted $kind device(s), and Ray gave its job on $NODE: ${own:-none}"
}

ray_refuse() {
    put "$STATE/$CUT_FILE" "devices $NAME"
    give_up 78 "RLX584 $PROBLEM"
}

# watch_job PID: as long as that supervisor lives: whether the run is stopped from elsewhere, and whether Ray has ended.
watch_job() {
    supervisor=$1
    start_tick "$supervisor" && begun=$TICK
    while start_tick "$supervisor" && [ "$TICK" = "$begun" ]; do
        if [ -f "$run/$STOP_FILE" ]; then
            { read -r _ grace <"$run/$STOP_FILE"; } 2>/dev/null || grace=$SWEEP_GRACE_S
            end_processes "$run" "${grace:-$SWEEP_GRACE_S}"
            return
        elif ! job_is_there; then
            ray_note_cut gone
            end_processes "$run" "$SWEEP_GRACE_S"
            return
        fi
        nap 0.5
    done
}

# ray_note_cut WHY: into `cut`: gone, where Ray has ended; cancelled, where it told the job to end, which only people do.
ray_note_cut() {
    [ ! -e "$run/$STOP_FILE" ] && [ ! -e "$STATE/$CUT_FILE" ] || return 0
    why=cancelled said="Ray was told to end job $NAME: the run is told to end"
    job_is_there || { why=gone said="the Ray of job $NAME has ended: the run is told to end"; }
    put "$STATE/$CUT_FILE" "$why $NAME"
    printf 'rlx: %s\n' "$said" >>"$ATTEMPT/$LOG_FILE"
}

# ---- facts

# A line `ray JSON` for each cluster.
ray_report() {
    find_python || { printf 'ray {"silent": "there is no Python 3.8 or later on the PATH of this host"}\n' && return; }
    for pair in $JOBS; do
        part=$root/runs/${pair%%=*} ray=
        find_request "$part"
        find_attempt "$part"
        [ ! -f "$STATE/$RAY_FILE" ] || { read -r ray <"$STATE/$RAY_FILE"; } 2>/dev/null
        printf '%s\t%s\t%s\t%s\n' "$RAY" "${pair#*=}" "$part" "$ray"
    done | RAY_API_S=$REPORT_RAY_S ray_api report 2>/dev/null
}

# ray_jobs ADDRESS: what the cluster has, and the jobs of everybody, a line of JSON each.
ray_jobs() {
    ask_ray jobs "$1" || fail "$ANSWER"
    printf '%s\n' "$ANSWER"
}

# ---- cancel

# ray_stop: ends the run with all the time that it is given, and then what Ray has of it.
ray_stop() {
    asked=
    find_request "$run"
    find_job "$run" || :
    mark_stopped "$run"
    find_attempt "$run"
    # Its supervisor sees the marker and ends the run; a second SIGTERM makes some programs drop their orderly end.
    ! alive "$STATE/$SUPERVISOR_FILE" || within $((grace + SWEEP_GRACE_S + KILL_S)) gone "$STATE/$SUPERVISOR_FILE" || :
    end_processes "$run" "$grace"
    if [ -z "$JOB" ]; then
        :
    elif ! look_at_ray; then
        [ -e "$STATE/$EXIT_FILE" ] || { unmark_part "$run" && fail "$ANSWER"; }
        JOB=
    elif [ "$ANSWER" = PENDING ]; then
        # It begins when there is what it asked for, finds that it is stopped, and ends. Ray does not forget it before.
        ask_ray stop "$RAY" "$JOB" "$run" || fail "$ANSWER"
        JOB=
    elif [ "$ANSWER" = RUNNING ] && ! await_ray $((grace + SWEEP_GRACE_S + KILL_S)); then
        ask_ray stop "$RAY" "$JOB" "$run" || fail "$ANSWER"
        await_ray "$RAY_END_S" || fail "Ray has not ended job $JOB: ${ANSWER:-it does not answer}"
    fi
    find_attempt "$run"
    record stop 143
    forget_secrets "$run"
    printf 'ended%s\nleft %s\n' "$ENDED" "$LEFT"
    rm -f "$STATE/$RESERVED_FILE".*
    [ -z "$JOB" ] || printf 'job Ray job %s\n' "$JOB"
    [ -z "$LEFT" ] || exit 1
}

# look_at_ray: in ANSWER, Ray's word for $JOB; empty if it does not know it any more, or means another's.
look_at_ray() { ask_ray state "$RAY" "$JOB" "$run"; }

await_ray() {
    clock
    until_s=$((NOW + $1))
    while look_at_ray && [ "$ANSWER" = RUNNING ]; do
        clock
        [ "$NOW" -lt "$until_s" ] || return 1
        nap "$RAY_POLL_S"
    done
}

# ---- retry

# ray_over: fails where the newest attempt of $run may still run. One that was stopped while it waited is over.
ray_over() {
    find_request "$run"
    find_job "$run" || ray_find
    [ -z "$JOB" ] || [ -e "$run/$JOB_FILE" ] || note_job "$run"
    [ -z "$(members "$id")" ] || fail "it is not over: processes of it are alive; rlx stop $id"
    [ ! -e "$STATE/$EXIT_FILE" ] && [ -n "$JOB" ] || return 0
    look_at_ray || fail "$ANSWER"
    case $ANSWER in
        RUNNING) fail "it is not over: Ray job $JOB is RUNNING; rlx stop $id" ;;
        PENDING) [ -e "$run/$STOP_FILE" ] || fail "it is not over: Ray job $JOB is PENDING; rlx stop $id" ;;
    esac
}
