"""The planar robots of gymnasium: hopper, walker2d, halfcheetah, version 5."""
