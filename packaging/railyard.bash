# Completion of railyard for bash: commands and options as --help lists them, files elsewhere.
_railyard() {
  local word=${COMP_WORDS[COMP_CWORD]} command=() help
  [ "$COMP_CWORD" -le 1 ] || command=("${COMP_WORDS[1]}")
  if [[ $word == -* || $COMP_CWORD -eq 1 ]]; then
    help=$(railyard "${command[@]}" --help 2>/dev/null)
    local words
    if [[ $word == -* ]]; then
      words=$(grep -oE -- '--[a-z][a-z-]*' <<<"$help" | sort -u)
    else
      words=$(sed -n '/^Subcommands:/,$s/^  \([a-z][a-z]*\) .*/\1/p' <<<"$help")
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  fi
  [ ${#COMPREPLY[@]} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
complete -o filenames -F _railyard railyard
