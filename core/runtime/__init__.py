"""Running a bundle in real time: sessions, robots, the control loop. No torch, no simulator."""
