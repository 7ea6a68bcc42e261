"""The main job: a stream of events under names, kept up to date and answered after each batch, in two ways."""
