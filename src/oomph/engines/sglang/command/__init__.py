"""What people type for SGLang, to a Deployment and back."""
