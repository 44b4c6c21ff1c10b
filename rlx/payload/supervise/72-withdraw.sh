# ---- blocks of a sweep ---------------------------------------------------------------------------------------------
# A run of a sweep has a file `block`, the name of the block that it came here with. RUNS/.blocks/<name> says what became of
# that block on this host, once and for all: a folder, one of its runs has begun to start; a file, it was withdrawn, and
# none of its runs ever starts here. A mkdir makes the one, a rename of a file the other, and neither replaces what the
# other one made: whichever comes first decides for all runs of the block.

WITHDRAW_S=20 # how long a launch to the same root may be waited for

# find_block RUN: in BLOCK, what decides about its block; fails for a run that has none.
find_block() {
    [ -f "$1/$BLOCK_FILE" ] && { read -r block; } 2>/dev/null <"$1/$BLOCK_FILE" && is_block "$block" || return 1
    BLOCK=${1%/*}/$BLOCKS_DIR/$block
}

is_block() {
    case $1 in '' | [!A-Za-z0-9_]* | *[!A-Za-z0-9._-]*) return 1 ;; esac
}

withdrawn() { find_block "$1" && [ -f "$BLOCK" ]; }

# open_block RUN: from here on its block stays on this host.
open_block() {
    find_block "$1" || return 0
    mkdir "$BLOCK" 2>/dev/null || [ -d "$BLOCK" ]
}

# was_withdrawn: the shipped run $id comes too late, since its block was withdrawn meanwhile.
was_withdrawn() {
    find_block "$incoming/$id" || return 1
    mkdir -p "$root/runs/$BLOCKS_DIR" || fail "cannot write to $root/runs"
    [ -f "$root/runs/$BLOCKS_DIR/$block" ]
}

# withdraw ROOT BLOCK RUN-ID…: prints `withdrawn`, and then nothing of these runs is left here, or `started`. Asked again it
# says the same. The lock keeps a shipment from arriving in between.
withdraw() {
    expand "$1"
    runs=$EXPANDED/runs block=$2
    shift 2
    is_block "$block" || fail "no name of a block: $block"
    mkdir -p "$runs/$BLOCKS_DIR" || fail "cannot write to $runs"
    exec 5<"$runs"
    flock -w "$WITHDRAW_S" 5 || fail "another launch to ${runs%/*} is under way"
    BLOCK=$runs/$BLOCKS_DIR/$block
    put "$BLOCK.asked" "$(date +%s)" || fail "cannot write to $runs"
    # Onto a folder there is no rename: mv would put the file into it.
    mv -f "$BLOCK.asked" "$BLOCK" 2>/dev/null
    rm -f "$BLOCK.asked" "$BLOCK/$block.asked"
    if [ ! -f "$BLOCK" ]; then
        printf 'started\n'
        return
    fi
    for id in "$@"; do remove_waiting "$runs/$id"; done
    printf 'withdrawn\n'
}

# remove_waiting RUN: unless it came back with a later block. Its holder would see by itself that it has nothing to wait for.
remove_waiting() {
    run=$1 ENDED='' decided=$BLOCK
    { find_block "$run" && [ "$BLOCK" = "$decided" ]; } || { BLOCK=$decided && return; }
    elsewhere "$run" || end_holder
    rm -rf "$decided.gone"
    mv "$run" "$decided.gone" && rm -rf "$decided.gone"
}
