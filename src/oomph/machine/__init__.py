"""What is measured on this machine: servers started and watched, and what their starts taught."""
