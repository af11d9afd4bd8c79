"""administration"""
