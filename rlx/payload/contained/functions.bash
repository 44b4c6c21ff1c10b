# shellcheck shell=bash
# Each bash that a user's script starts reads this (BASH_ENV): a function comes before a builtin such as kill, and before the
# programs of an environment that the script activates. What they do is in contained.sh.
if [[ -r ${RLX_BASH_ENV:-} && $RLX_BASH_ENV != */payload/contained/* ]]; then
  # shellcheck disable=SC1090
  . "$RLX_BASH_ENV"
fi

pkill() { "$RLX_CONTAINED_BIN/pkill" "$@"; }
killall() { "$RLX_CONTAINED_BIN/killall" "$@"; }
fuser() { "$RLX_CONTAINED_BIN/fuser" "$@"; }

# The builtin alone knows the jobs of this shell, so it ends what may be ended.
kill() {
  { [[ ${BASH_VERSINFO[0]}${BASH_VERSINFO[1]} -lt 44 ]] || { local - && set +x; }; } 2>/dev/null
  local shell=$BASHPID kept
  mapfile -t kept < <("$RLX_CONTAINED_BIN/kill" --kept "$shell" "$@")
  [[ ${#kept[@]} -gt 0 ]] && builtin kill "${kept[@]}"
}

ray() {
  # A trace of the script shows what the script does.
  { [[ ${BASH_VERSINFO[0]}${BASH_VERSINFO[1]} -lt 44 ]] || { local - && set +x; }; } 2>/dev/null
  if "$RLX_CONTAINED_BIN/ray" "$@"; then set -- 0; else set -- "$?"; fi
  rlx_find_ray
  return "$1"
}

# Programs that the script starts find the Ray of its run by this.
rlx_find_ray() {
  case ${RAY_ADDRESS-local} in local | "${RLX_RAY_ADDRESS-}") ;; *) return 0 ;; esac
  RAY_ADDRESS=local
  if [[ -r $RLX_RAY_TMP/ray/ray_current_cluster ]]; then read -r RAY_ADDRESS <"$RLX_RAY_TMP/ray/ray_current_cluster" || :; fi
  RLX_RAY_ADDRESS=$RAY_ADDRESS
  export RAY_ADDRESS RLX_RAY_ADDRESS
}
rlx_find_ray
