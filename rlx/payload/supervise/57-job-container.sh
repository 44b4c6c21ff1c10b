# ---- the container of a job ----------------------------------------------------------------------------------------
# A job whose run directory has a file `docker` makes a container on its node, for itself alone, and the leader runs in
# it; the supervisor stays the script of the job, where the scheduler can be asked. What is in a container is dockerd's, and no
# part of the job: so it ends by itself as soon as no process of the job holds its stdin, for whatever reason.
# `docker` has a line `image NAME`, perhaps `user NAME`, and a line `mount SOURCE:DESTINATION[:ro]` each.

makes_container() { [ -z "$WITHIN" ] && [ -f "$1/$DOCKER_FILE" ]; }

# prepare_container: in PROBLEM, why this node can make none. In image_id, what it is made of, also into `image`.
prepare_container() {
    makes_container "$run" && [ -z "$PROBLEM" ] || return 0
    image=$(sed -n 's/^image //p' "$run/$DOCKER_FILE")
    facts=$(find_image "$image" && with_mounts '' check_mounts)
    case $NEWLINE$facts in
        *"${NEWLINE}error "*) refuse_container "${facts##*error }" && return ;;
    esac
    image_id=${facts#image_id } image_id=${image_id%%"$NEWLINE"*}
    put "$run/$IMAGE_FILE" "$image_id" || fail "cannot write to $run"
    check_image_of_head
    printf 'rlx: in a container of %s on %s: %s\n' "$image" "$NODE" \
        "$(printf '%s\n' "$facts" | sed -n 's/^[a-z_]* //p' | paste -s -d ' ' -)" >>"$ATTEMPT/$LOG_FILE"
}

# refuse_container KIND TEXT…: the words of ask_docker.sh and docker_run.sh.
refuse_container() {
    CAUSE=container text=${1#* } text=${text% }
    case $1 in
        no-docker*) PROBLEM="there is no docker command on $NODE" ;;
        no-image*) PROBLEM="$NODE has no image $image, and rlx fetches none: docker pull $image, on each node" ;;
        no-mount*) PROBLEM="the entry of the host mounts $text, which is not on $NODE" ;;
        denied*) PROBLEM="$text may not use docker on $NODE: an administrator can put this user into its group" ;;
        down*) PROBLEM="the docker daemon on $NODE does not answer: $text" ;;
        *) PROBLEM="docker on $NODE: $text" ;;
    esac
}

# Versions may differ between two builds of one name.
check_image_of_head() {
    find_head "$run"
    [ "$HEAD" != "$run" ] && { read -r of_head <"$HEAD/$IMAGE_FILE"; } 2>/dev/null && [ "$of_head" != "$image_id" ] || return 0
    CAUSE=container
    PROBLEM="$image is another one on $NODE ($image_id) than on the node of the head ($of_head): docker pull the same on both"
}

# contain_leader DEVICES: until the container is over.
contain_leader() {
    # Not where the container can write.
    { BOX=$(mktemp -d /tmp/rlx-XXXXXX) && mkfifo -m 600 "$BOX/orders" && exec 4<>"$BOX/orders"; } || give_up 74 "cannot write to /tmp"
    limits=$LIMITS
    start_container "$1"
    await_leader
    if must_start_again; then
        limits=
        start_container "$1"
        await_leader
    fi
    remove_container
    began_or_told || tell_no_start
    rm -rf "$BOX"
}

began_or_told() { [ -e "$STATE/$LEADER_FILE" ] || [ -e "$STATE/$CUT_FILE" ] || [ -e "$run/$STOP_FILE" ]; }

# The node may forbid to raise limits, as its docker says.
must_start_again() { ! began_or_told && grep -q rlimit "$BOX/said" && remove_container; }

tell_no_start() {
    put "$STATE/$CUT_FILE" "container $JOB_ID"
    printf 'rlx: RLX589 docker on %s could not start the container of %s (%s): %s\n' "$NODE" "$image" "$code" \
        "$(tail -n 3 "$BOX/said")" >>"$ATTEMPT/$LOG_FILE"
}

# start_container DEVICES: the docker command is the leader of this run; each function adds words to it and calls the next.
start_container() {
    rm -f "$BOX/id"
    with_mounts --volume= with_folders with_user with_own_devices with_limits with_host docker_run "$1"
}

with_folders() {
    root=${run%/runs/*}
    # Under the name that the job knows, from its real location.
    "$@" "--volume=$(cd -P "$root" && pwd -P):$root" "--volume=$ray_tmp:$ray_tmp"
}

# with_mounts PREFIX COMMAND…: with the mounts of the entry.
with_mounts() {
    prefix=$1
    shift
    while read -r key value; do
        [ "$key" != mount ] || set -- "$@" "$prefix$value"
    done <"$run/$DOCKER_FILE"
    "$@"
}

# A shared file system may let root write nothing: so as who submitted the job, in all groups.
with_user() {
    user=$(sed -n 's/^user //p' "$run/$DOCKER_FILE")
    if [ -n "$user" ]; then
        set -- "$@" "--user=$user"
    else
        set -- "$@" "--user=$(id -u):$(id -g)" "--env=HOME=${HOME:-/}" "--env=USER=$(id -un)" "--env=LOGNAME=$(id -un)"
        for group in $(id -G); do set -- "$@" "--group-add=$group"; done
    fi
    "$@"
}

# The devices of the job, and no other one.
with_own_devices() {
    case $kind in
        npu) for number in $(printf %s "$INDICES" | tr , ' '); do set -- "$@" "--device=/dev/davinci$number"; done ;;
        cuda) set -- "$@" "--gpus=\"device=$INDICES\"" ;;
    esac
    "$@"
}

# A scheduler's limits hold for the script of the job, and not for what dockerd starts.
with_limits() {
    if [ "$(count_cpus)" -lt "$(count_cpus --all)" ]; then
        set -- "$@" "--cpuset-cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
    fi
    memory=${JOB_MEMORY_MB:-0}
    [ "$memory" = 0 ] || set -- "$@" "--memory=${memory}m"
    "$@"
}

count_cpus() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc "$@"; }

docker_run() {
    devices=$1
    shift
    # shellcheck disable=SC2086 # two options, or none
    LC_ALL=C setsid docker run --rm --interactive "--cidfile=$BOX/id" "--name=$(container_name)" $limits "$@" --entrypoint=sh \
        "$image_id" "$run/$SUPERVISE_FILE" inside guard "$run" "$devices" <"$BOX/orders" >"$BOX/said" 2>&1 4>&- &
    leader=$!
}

# Each job has its own: what another attempt may have left keeps no name from it.
container_name() { printf 'rlx-job-%s-%s' "${run##*/}" "$JOB_ID"; }

# end_container: from beside the supervisor, who tells the run. What is in it may be another user's.
end_container() {
    kill -s TERM $$
    within "$SWEEP_GRACE_S" test -e "$STATE/$EXIT_FILE" || ask kill "$(container_name)" >/dev/null 2>&1
}

# Docker removes it once it is over, unless it could only create it, or its client was killed.
remove_container() {
    [ -s "$BOX/id" ] || return 0
    within "$DOCKER_S" is_removed "$(cat "$BOX/id")" ||
        printf 'rlx: docker on %s did not remove the container of this run: %s\n' "$NODE" "$answer" >>"$ATTEMPT/$LOG_FILE"
}

is_removed() {
    answer=$(ask rm --force "$1" 2>&1) && return
    case $answer in *[Nn]"o such container"*) ;; *) return 1 ;; esac
}

# ---- inside

# guard RUN DEVICES: the first process of the container, under docker's init, with whose end all that is in it ends. A
# line on stdin tells the run to end.
guard() {
    run=$1 told=''
    cd /
    exec 3<&0 </dev/null
    trap tell_once TERM
    trap : HUP INT USR1
    # The home of the job's user need not be there.
    [ -w "${HOME:-/nowhere}" ] || export HOME=/tmp
    find_attempt "$run"
    find_cluster
    read -r ray_tmp <"$STATE/$RAY_TMP_FILE"
    start_leader "$2" 3<&-
    within "$SIGN_S" test -e "$STATE/$LEADER_FILE"
    heed &
    until await_guarded; do :; done
    GROUP=$leader
    end_processes "$run" "$SWEEP_GRACE_S"
    exit "$code"
}

# heed: a process that holds the other end is of the job. None is left when the scheduler has killed it.
heed() {
    trap - TERM
    while read -r _ <&3; do kill -s TERM $$; done
    kill -s KILL $$
}

# The scheduler and the supervisor may both tell it: a second SIGTERM makes some programs drop their orderly end.
tell_once() {
    interrupted=1
    [ -n "$told" ] || kill -s TERM -- "-$leader" 2>/dev/null
    told=1
}

await_guarded() {
    interrupted=
    wait "$leader"
    code=$?
    [ -z "$interrupted" ]
}
