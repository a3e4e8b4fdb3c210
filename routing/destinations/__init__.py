"""Where reports of generations are sent: teams' own receivers, and how reports reach them."""
