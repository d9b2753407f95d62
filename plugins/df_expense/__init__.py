"""DF-ExpEnse: explore with candidates of the diffusion policy, scored by a critic ensemble."""
