# Completion of railyard for bash: commands and options as --help lists them, files elsewhere.
_railyard() {
  local word=${COMP_WORDS[COMP_CWORD]} command=() i help words
  COMPREPLY=()
  # The command so far: `ckpt export`, not its options and files.
  for ((i = 1; i < COMP_CWORD && i <= 2; i++)); do
    [[ ${COMP_WORDS[i]} =~ ^[a-z][a-z-]*$ ]] || break
    command+=("${COMP_WORDS[i]}")
  done
  help=$("${COMP_WORDS[0]}" "${command[@]}" --help 2>/dev/null)
  # A word of the command that names none of its subcommands is an argument.
  if [[ -z $help && ${#command[@]} -gt 1 ]]; then
    command=("${command[0]}")
    help=$("${COMP_WORDS[0]}" "${command[@]}" --help 2>/dev/null)
  fi
  if [[ $word == -* ]]; then
    words=$(sed -n 's/^  \(-[a-zA-Z],\)\{0,1\}\(--[a-z][a-z-]*\).*/\2/p' <<<"$help")
  elif [ "$COMP_CWORD" -eq $((${#command[@]} + 1)) ]; then
    words=$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p' <<<"$help")
  fi
  [ -z "${words:-}" ] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  [ ${#COMPREPLY[@]} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
complete -o filenames -F _railyard railyard
