"""Diffusion policy: a denoiser conditioned on the observation, sampled with DDIM."""
