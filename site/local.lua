-- Any machine of one's own: nothing is known of it beforehand, everything is looked up when a run starts. This is the
-- site where no other is found; copy it to ~/.config/railyard/site.lua or /etc/railyard/site.lua to say more.

return site {
  name = "local",
}
