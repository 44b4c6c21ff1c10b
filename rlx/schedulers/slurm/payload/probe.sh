# What Slurm says on a login node, without submitting anything: PARTITION, and the options of a job.
partition=$1
shift
for tool in sbatch squeue scancel scontrol sacct sinfo; do
    path=$(command -v "$tool" 2>/dev/null) && printf 'tool %s=%s\n' "$tool" "$path"
done
command -v sinfo >/dev/null || exit 0
printf 'version %s\n' "$(sinfo --version 2>/dev/null | head -n 1)"
if said=$(timeout 8 sinfo --noheader --Node "--partition=$partition" --format='node %N|%T|%G|%E' 2>&1); then
    printf 'partition %s\n' "$(scontrol show partition "${partition%%,*}" --oneliner 2>&1 | tr '\n' ' ')"
    printf '%s\n' "$said"
    tried=$(timeout 8 sbatch --test-only "--partition=$partition" "$@" --wrap=true 2>&1)
    printf 'test %s %s\n' "$?" "$(printf %s "$tried" | tail -n 1)"
    command -v sacct >/dev/null && { said=$(timeout 4 sacct --noheader --allocations --jobs=1 2>&1) ||
        printf 'unaccounted %s\n' "$(printf %s "$said" | tail -n 1)"; }
else
    printf 'silent %s\n' "$(printf %s "$said" | tail -n 1)"
fi
