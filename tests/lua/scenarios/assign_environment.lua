--@ error: 2: env can only be read; run.setenv sets variables of the ranks
env.PATH = "x"
return job {}
