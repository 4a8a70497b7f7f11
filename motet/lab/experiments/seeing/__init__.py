"""What a person looks at afterwards: everything here is made from the folder of a sweep alone."""
