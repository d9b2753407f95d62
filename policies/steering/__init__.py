"""DSRL: steer a frozen diffusion policy by choosing the noise that it decodes."""
