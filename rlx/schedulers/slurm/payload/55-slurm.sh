# ---- Slurm ---------------------------------------------------------------------------------------------------------
# What is asked of it are options of sbatch, one a line.
#
# A job is known by its comment, which names run and attempt: a controller that was killed forgets the last seconds, and gives
# their numbers again. The run's own record of its end goes before what Slurm says of it: who traps the signal can let a
# cancelled job look completed. Slurm ends what leaves the job's script, so the supervisor is that script.

SLURM_S=30       # without its controller, Slurm's programs try for 18 s
# Of squeue, sacct and sinfo, one after the other: less than rlx waits for a report, which is about other runs, too.
REPORT_SLURM_S=8
REPORT_SACCT_S=6
REPORT_SINFO_S=4
QUEUE_S=12
MOST_JOBS=5000
SLURM_POLL_S=0.5
STRAGGLER_S=60 # what is left of a step once one of its nodes has ended
NODE_FAILED_S=15 # Ray notices within 10 s that a node is gone, and says more of it
BEATS_S=60 # a supervisor writes every 5 s; a file server may tell others of it as late as this
NODES_END_S=20 # how long the other nodes take to see that the head is gone

# ask_slurm SECONDS JOBS: in ANSWER, a line a job: `number|state|reason|start|nodes|submitted|comment`, times in seconds
# since 1970. Fails where Slurm does not answer; ANSWER then says why.
ask_slurm() {
    ANSWER=$(SLURM_TIME_FORMAT=%s timeout "$1" squeue --noheader --states=all "$2" \
        --format='%i|%T|%r|%S|%N|%V|%k' 2>&1 </dev/null) && return
    slurm_code=$?
    case $ANSWER in
        *'Invalid job id'*) ANSWER='' && return ;;
        '') ANSWER="squeue did not answer within $1 s" ;;
    esac
    return "$slurm_code"
}

# ---- submit

slurm_find() {
    ask_slurm "$SLURM_S" "--user=$(id -un)" || take_back "Slurm cannot be asked whether $id is a job already: $ANSWER"
    JOB=$(printf '%s\n' "$ANSWER" | grep -F "|rlx:$NAME" | grep -E "\|rlx:$NAME\$" | cut -d'|' -f1 | tail -n 1)
}

# What a job gets of this session is what a holder gets, and not the limits of a login node.
slurm_submit() {
    command -v sbatch >/dev/null || take_back "there is no sbatch on the PATH of this host: it is no login node of Slurm"
    set -- --parsable "--comment=rlx:$NAME" "--job-name=$NAME" --chdir=/ "--output=$run/$HOLDER_LOG_FILE" --open-mode=append \
        --no-requeue --propagate=NONE
    while read -r option; do set -- "$@" "$option"; done <<REQUEST
$(request_of "$run")
REQUEST
    said=$(timeout "$SLURM_S" sbatch "$@" "$run/$SUPERVISE_FILE" job "$run" "$kind" "$wanted" 2>&1 </dev/null 5<&-) ||
        take_back "sbatch: $(printf %s "$said" | tail -n 3)"
    JOB=$(printf '%s\n' "$said" | grep -xE '[0-9]+(;.*)?' | cut -d';' -f1)
    [ -n "$JOB" ] || take_back "sbatch named no job: $said"
}

# ---- the job

slurm_job() {
    JOB_ID=$SLURM_JOB_ID
    JOB_MEMORY_MB=${SLURM_MEM_PER_NODE:-$((${SLURM_MEM_PER_CPU:-0} * ${SLURM_CPUS_ON_NODE:-0}))}
    find_attempt "$run"
    find_granted
    prepare_container
    put "$STATE/$CLAIMED_FILE" "job $SLURM_JOB_ID"
    find_cluster
    [ "$nodes" -eq 1 ] || [ "$node" -gt 0 ] || { find_address && of_nodes tell_address; }
    run "$run" "$GRANTED" "$kind" "$(printf %s "${INDICES-}" | tr , ' ')"
    end_nodes
    exit "$code"
}

# ---- the other nodes of a job
# One step of the job starts them all. slurm_node RUN KIND WANTED: the task of that step on one of them.
slurm_node() {
    run=$1-node$((SLURM_PROCID + 1))
    [ -d "$run" ] || fail "$NODE does not see $run: the root of this host must lie on the file system of all nodes"
    exec >>"$run/$HOLDER_LOG_FILE" 2>&1
    kind=$2 wanted=$3
    cd /
    slurm_job
}

# find_address: in ADDRESS, where the others reach this node: as Slurm itself does. Its name may mean 127.0.1.1 here.
find_address() {
    name=$(timeout "$SLURM_S" scontrol show node "${SLURMD_NODENAME:-$NODE}" | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p')
    ADDRESS=$({ getent ahostsv4 "${name:-$NODE}" || getent ahosts "${name:-$NODE}"; } | grep -vE '^(127\.|::1 )' | head -n 1)
    ADDRESS=${ADDRESS%% *}
    [ -n "$ADDRESS" ] || ADDRESS=$(hostname -I 2>/dev/null | cut -d' ' -f1)
    ADDRESS=${ADDRESS:-$NODE}
}

# tell_address PART: the launch could not know which node becomes the head.
tell_address() {
    read -r node nodes head ray_tmp <"$1/$CLUSTER_FILE"
    put "$1/$CLUSTER_FILE" "$node $nodes $ADDRESS:${head##*:} $ray_tmp"
}

# slurm_attend: as long as they run; one that fails, or is killed, ends the run. Each is given all that the job has there.
slurm_attend() {
    others=$((nodes - 1))
    # What a plugin of the site has set counts the devices of this node; srun would hand it on to the others.
    unset ASCEND_RT_VISIBLE_DEVICES ASCEND_VISIBLE_DEVICES NPU_DEVICE_ORDINAL CUDA_VISIBLE_DEVICES
    said=$(srun --relative=1 "--nodes=$others" "--ntasks=$others" --ntasks-per-node=1 --cpu-bind=none --mpi=none \
        --export=ALL --propagate=NONE --input=none --kill-on-bad-exit=0 "--wait=$STRAGGLER_S" \
        sh "$run/$SUPERVISE_FILE" node "$run" "$kind" "$wanted" 2>&1 </dev/null) && exit
    # Of what ends all nodes alike, the head is told as they are.
    ! within "$NODE_FAILED_S" is_explained || exit 0
    why=node
    of_nodes tell_failure
    put "$STATE/$CUT_FILE" "$why $SLURM_JOB_ID"
    printf 'rlx: a node of Slurm job %s has ended, and so the run is told to end\n%s\n' "$SLURM_JOB_ID" \
        "$(printf '%s\n' "$said" | grep -v 'lacks support for cpu binding')" >>"$ATTEMPT/$LOG_FILE"
    if makes_container "$run"; then end_container; else end_processes "$run" "$SWEEP_GRACE_S"; fi
}

is_explained() { [ -e "$STATE/$EXIT_FILE" ] || [ -e "$STATE/$CUT_FILE" ] || [ -e "$run/$STOP_FILE" ]; }

# tell_failure PART: into the head's log, how that node ended, and its last words.
tell_failure() {
    first=$1/$ATTEMPTS_DIR/1
    [ "$1" != "$run" ] || return 0
    ended='recorded no end' name=
    [ -f "$first/$STATE_DIR/$SUPERVISOR_FILE" ] && read -r _ _ _ name _ <"$first/$STATE_DIR/$SUPERVISOR_FILE"
    [ -f "$first/$STATE_DIR/$EXIT_FILE" ] && read -r ended _ <"$first/$STATE_DIR/$EXIT_FILE" && ended="ended with $ended"
    [ -f "$first/$STATE_DIR/$CUT_FILE" ] && read -r why _ <"$first/$STATE_DIR/$CUT_FILE"
    printf 'rlx: node %s%s %s: %s\n' "${1##*-node}" "${name:+ ($name)}" "$ended" "$(tail -n 1 "$first/$LOG_FILE")" >>"$ATTEMPT/$LOG_FILE"
}

# end_nodes: they see by themselves that the head's Ray is gone, unless it never was there.
end_nodes() {
    [ -n "$attendant" ] || return 0
    if [ -e "$run/$STOP_FILE" ] || ! within "$NODES_END_S" has_ended "$attendant"; then
        timeout "$SLURM_S" scancel --signal=TERM "$SLURM_JOB_ID.0" 2>/dev/null
        within $((SWEEP_GRACE_S + KILL_S)) has_ended "$attendant"
    fi
    of_nodes forget_secrets
}

# ---- its devices

# find_granted: in GRANTED, the devices of this job on this node, as the run must call them; empty where they are the
# ones that it sees anyway. In PROBLEM, what is wrong with them, or with the container that CAUSE names.
find_granted() {
    GRANTED='' PROBLEM='' CAUSE=devices
    case $kind in
        cpu) GRANTED=0 && return ;;
        npu) own=${ASCEND_RT_VISIBLE_DEVICES-} ;;
        *) own=${CUDA_VISIBLE_DEVICES-} ;;
    esac
    # What a plugin of the site has set is right here, whatever it means, and stays as it is. It is not about a container.
    if [ -n "$own" ] && ! makes_container "$run"; then
        check_granted "$own" "the site's variable"
        return
    fi
    find_indices
    if [ -z "$INDICES" ]; then
        PROBLEM="Slurm names no $kind device of job $SLURM_JOB_ID: without File= in gres.conf it is unknown which of $NODE are its own"
        return
    fi
    check_granted "$INDICES" scontrol
    GRANTED=$INDICES
    ! { makes_container "$run" || confined; } || GRANTED=$(seq -s, 0 $((wanted - 1)))
}

# check_granted LIST SOURCE
check_granted() {
    count=$(printf %s "$1" | tr ',' '\n' | grep -c .)
    [ "$count" -eq "$wanted" ] || PROBLEM="the run needs $wanted $kind device(s), and $2 names $count of job $SLURM_JOB_ID on $NODE: $1"
}

slurm_refuse() {
    put "$STATE/$CUT_FILE" "$CAUSE $SLURM_JOB_ID"
    case $CAUSE in devices) cause=RLX593 ;; *) cause=RLX589 ;; esac
    give_up 78 "$cause $PROBLEM"
}

# find_indices: in INDICES, those of this node, from `Nodes=n[1-2] … GRES=npu:910B3:2(IDX:0,4-5)`; a node is asked for
# its own, since another one's differ.
find_indices() {
    name=$(sed -n 's/^--gres=\([^:]*\):.*/\1/p' "$run/$REQUEST_FILE")
    INDICES=$(timeout "$SLURM_S" scontrol show job --details "$SLURM_JOB_ID" | grep -oE '^ *Nodes=[^ ]+ .*GRES=[^ ]+' | while read -r nodes words; do
        scontrol show hostnames "${nodes#Nodes=}" | grep -qxF "${SLURMD_NODENAME:-$NODE}" || continue
        printf '%s\n' "${words##*GRES=}" | grep -oE "(^|,)${name:-$kind}(:[^(:,]+)*\(IDX:[^)]*\)" | sed 's/.*IDX://; s/)$//' | tr ',' '\n' |
            while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done
    done | paste -sd, -)
}

# confined: the job can open no other device of this node, so the driver counts those that it can from 0.
confined() {
    [ "$kind" = npu ] && scontrol show config 2>/dev/null | grep -qiE '^ConstrainDevices *= *yes' || return 1
    find_numbers npu
    for number in $NUMBERS; do
        case ",$INDICES," in *",$number,"*) continue ;; esac
        ! (: <"/dev/davinci$number") 2>/dev/null
        return
    done
    return 1
}

# ---- how a job ends

# slurm_note_cut: into `cut`, why Slurm ended the run: limit, preempted, cancelled or signal. It told the run by a signal that
# says nothing more, and forgets the job in time.
slurm_note_cut() {
    [ -n "${SLURM_JOB_ID-}" ] && [ ! -e "$run/$STOP_FILE" ] && [ ! -e "$STATE/$CUT_FILE" ] || return 0
    case $1-$(timeout 5 scontrol show job --oneliner "$SLURM_JOB_ID" 2>/dev/null) in
        *JobState=NODE_FAIL* | *Reason=NodeDown*) why=down ;;
        limit-* | *Reason=TimeLimit*) why=limit ;;
        *PreemptTime=[0-9]* | *JobState=PREEMPTED*) why=preempted ;;
        # The word for every job that Slurm is ending.
        *JobState=COMPLETING* | *JobState=CANCELLED*) why=cancelled ;;
        # Of a further node, the head's job tells it when it is over itself.
        *)
            find_head "$run"
            if [ "$HEAD" != "$run" ] && [ -e "$HEAD/$ATTEMPTS_DIR/1/$STATE_DIR/$EXIT_FILE" ]; then why='head'; else why=signal; fi
            ;;
    esac
    put "$STATE/$CUT_FILE" "$why $SLURM_JOB_ID"
    printf 'rlx: %s\n' "$(cut_words "$why")" >>"$ATTEMPT/$LOG_FILE"
}

cut_words() {
    case $1 in
        limit) echo "the time limit of Slurm job $SLURM_JOB_ID is near: the run is told to end" ;;
        preempted) echo "Slurm preempts job $SLURM_JOB_ID: the run is told to end" ;;
        cancelled) echo "Slurm job $SLURM_JOB_ID was cancelled: the run is told to end" ;;
        down) echo "Slurm gave up a node of job $SLURM_JOB_ID: the run is told to end" ;;
        head) echo "the head of this run has ended: this node is told to end" ;;
        *) echo "Slurm job $SLURM_JOB_ID got SIGTERM: the run is told to end" ;;
    esac
}

# ---- facts

# `slurm silent <complaint>`, or a line a job that Slurm knows, `slurm squeue …` as ask_slurm has it, or `slurm sacct …` in
# the same form, but with the job's name at its end; with a job whose node was given up, `slurm node <name> <state>`.
# `silent` is of those that have no other line.
slurm_report() {
    NUMBERS_OF_JOBS=
    for pair in $JOBS; do NUMBERS_OF_JOBS="$NUMBERS_OF_JOBS,${pair#*=}"; done
    ask_slurm "$REPORT_SLURM_S" "--jobs=${NUMBERS_OF_JOBS#,}" || { printf 'slurm silent %s\n' "$ANSWER" | head -n 1 && return; }
    printf '%s\n' "$ANSWER" | lines_of squeue
    accounted=$(report_accounted)
    [ -z "$accounted" ] || printf '%s\n' "$accounted"
    # What runs on a node that was given up ends when the node is back.
    case "$ANSWER$accounted" in
        *'|NODE_FAIL|'*) timeout "$REPORT_SINFO_S" sinfo --noheader --Node --format='slurm node %N %T' 2>/dev/null </dev/null ;;
    esac
}

# lines_of PROGRAM: what it says of jobs, and not what it complains of beside that.
lines_of() { sed -n "s/^[0-9][0-9]*|/slurm $1 &/p"; }

# Slurm forgets a job minutes after its end; its accounting, where there is one, does not. It keeps comments only where the
# site wants them, and names always.
report_accounted() {
    forgotten=
    for pair in $JOBS; do
        find_head "${pair%=*}"
        find_attempt "$root/runs/$HEAD"
        name_job "$HEAD"
        case "$ANSWER$NEWLINE" in *"|rlx:$NAME$NEWLINE"*) ;; *) forgotten="$forgotten,${pair#*=}" ;; esac
    done
    [ -n "$forgotten" ] && command -v sacct >/dev/null || return 0
    if accounted=$(SLURM_TIME_FORMAT=%s timeout "$REPORT_SACCT_S" sacct --noheader --parsable2 --allocations --duplicates \
        "--jobs=${forgotten#,}" --format=JobIDRaw,State,Reason,Start,NodeList,Submit,JobName 2>&1 </dev/null); then
        printf '%s\n' "$accounted" | lines_of sacct
    else
        report_unaccounted $?
    fi
}

# report_unaccounted CODE: who has no accounting is not silent.
report_unaccounted() {
    case $1-$accounted in
        *'accounting storage is disabled'*) ;;
        124-*) echo "slurm silent sacct did not answer within $REPORT_SACCT_S s" ;;
        *) printf 'slurm silent %s\n' "$(printf '%s\n' "$accounted" | tail -n 1)" ;;
    esac
}

# slurm_jobs PARTITION: those of everybody that have not ended, a line a job, the highest priority first:
# `number|state|user|nodes|devices of each|submitted|start|end|node names|reason|comment|name`.
slurm_jobs() {
    said=$(SLURM_TIME_FORMAT=%s timeout "$QUEUE_S" squeue --noheader "--partition=$1" --sort=-p,i \
        --states=PENDING,CONFIGURING,RUNNING,SUSPENDED,STOPPED,COMPLETING \
        --format='%i|%T|%u|%D|%b|%V|%S|%e|%N|%r|%k|%j' 2>&1) ||
        fail "Slurm does not answer: ${said:-squeue took longer than $QUEUE_S s}"
    [ -z "$said" ] || printf '%s\n' "$said" | head -n "$MOST_JOBS"
}

# ---- cancel

# slurm_stop: ends the job of $run, and waits until Slurm says that it is over. No node of it goes on without the others.
slurm_stop() {
    find_head "$run"
    run=$HEAD
    find_job "$run"
    asked=
    of_nodes mark_stopped
    find_attempt "$run"
    look_at_job
    if goes_on; then
        # Only the supervisor, which passes it on: a second SIGTERM makes some programs drop their orderly end.
        [ "$JOB_STATE" != RUNNING ] || { tell_job --batch --signal=TERM && await_job "$grace"; } || :
        ! goes_on || { tell_job && tell_job --full --signal=KILL && await_job "$SLURM_S"; } ||
            fail "Slurm has not ended job $JOB ($JOB_STATE): its node may be down, and what it started there may run on"
        of_nodes record_stopped
    fi
    of_nodes forget_secrets
    find_attempt "$run"
    nothing_left
    [ -z "$JOB" ] || printf 'job Slurm job %s\n' "$JOB"
}

record_stopped() {
    find_attempt "$1"
    record stop 143
}

# look_at_job: in JOB_STATE, Slurm's word for it; empty if Slurm does not know it any more, or means another run.
look_at_job() {
    JOB_STATE=
    [ -n "$JOB" ] || return 0
    ask_slurm "$SLURM_S" "--jobs=$JOB" || { of_nodes unmark_part && fail "Slurm cannot be asked: $ANSWER"; }
    name_job "${run##*/}"
    case $ANSWER in "$JOB|"*"|rlx:$NAME") JOB_STATE=${ANSWER#*|} && JOB_STATE=${JOB_STATE%%|*} ;; esac
}

goes_on() {
    case $JOB_STATE in
        PENDING | RUNNING | SUSPENDED | COMPLETING | CONFIGURING | STOPPED | SIGNALING | STAGE_OUT | RESIZING | REQUEUE*) ;;
        *) return 1 ;;
    esac
}

tell_job() { timeout "$SLURM_S" scancel "$@" "$JOB" 2>/dev/null || :; }

await_job() {
    clock
    until_s=$((NOW + $1))
    while look_at_job && goes_on; do
        clock
        [ "$NOW" -lt "$until_s" ] || return 1
        nap "$SLURM_POLL_S"
    done
}

# ---- retry

# slurm_over: fails where Slurm may run the newest attempt of $run, or what ran there still writes. The one that began
# it may have been cut off before its job was noted.
slurm_over() {
    asked=
    name_job "$id"
    find_job "$run" || slurm_find
    [ -z "$JOB" ] || [ -e "$run/$JOB_FILE" ] || note_job "$run"
    look_at_job
    if goes_on && { [ ! -e "$STATE/$EXIT_FILE" ] || ! await_job "$SLURM_S"; }; then
        fail "it is not over: Slurm job $JOB is $JOB_STATE; rlx stop $id"
    fi
    [ -e "$STATE/$EXIT_FILE" ] || ! beats || fail "it is not over: it wrote within the last $BEATS_S s, whatever Slurm says"
}

# A node that was given up works on.
beats() {
    beat=$(stat -c %Y "$STATE/$HEARTBEAT_FILE" 2>/dev/null) && [ $(($(date +%s) - beat)) -lt "$BEATS_S" ]
}
