"""Command filters: what stands between a policy and a robot. numpy only."""
