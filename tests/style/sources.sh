# Lists the C++ and CUDA sources of the project: sources EXTENSION...
# shellcheck shell=bash
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
sources() {
  local names=()
  for extension in "$@"; do names+=(-o -name "*.$extension"); done
  find runtime topology lua launch tests \( "${names[@]:1}" \) -type f | sort
}
