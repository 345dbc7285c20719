# Installed into a shared prefix that is then moved: the module file finds it, and a job runs from there; nothing is
# written to the prefix.
reference
build=$(dirname "$(command -v railyard)")
cmake --install "$build" --prefix "$PWD/first" >install.txt
mv first moved
prefix=$PWD/moved
lmod=/usr/share/lmod/lmod/init/bash
if [ -r "$lmod" ]; then
  check [ "$(bash -c '. "$0"; module use "$1"; module load railyard; command -v railyard' "$lmod" "$prefix/share/railyard/modulefiles")" = "$prefix/bin/railyard" ]
else
  echo 'the module file was not loaded: Lmod is not installed here'
  check [ -s "$(echo "$prefix"/share/railyard/modulefiles/railyard/*.lua)" ]
fi
mkdir elsewhere
cp job.lua corpus.txt elsewhere
touch before
cd elsewhere
job=$(sbatch --parsable --export=NONE --wrap "PATH=$prefix/bin:\$PATH; readlink -f \$(command -v railyard); railyard run job.lua" -N2 --ntasks-per-node=2)
until_true 120 finished "$job"
check same_losses ../reference runs/tiny
says "^$prefix/bin/railyard" "slurm-$job.out"
check [ -z "$(find "$prefix" -newer ../before)" ]
"$prefix/bin/railyard" site --show >site.txt
says "^site/local.lua" site.txt
