"""Getting a3cd onto hosts over ssh: a plan of steps that can be repeated, and a program that takes them there."""
