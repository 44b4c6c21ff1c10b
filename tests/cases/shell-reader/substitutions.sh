path=/x/y/run_qwen.sh
show "$(basename "$path")" "$(basename "$path" .sh)" "$(dirname "$path")" "$(echo a b)" $(echo a b) `echo old`
show "[$(basename $(dirname $path))]"
