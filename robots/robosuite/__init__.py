"""robosuite: Lift, PickPlaceCan and NutAssemblySquare with a Panda arm, and scripted experts."""
