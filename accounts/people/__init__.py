"""How people prove who they are: passwords, second factors, their organization's provider."""
