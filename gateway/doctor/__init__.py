"""`manage.py doctor`: what is right and wrong with a deployment, in words."""
